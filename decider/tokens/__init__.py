"""User tokens: who a call is for, as an OpenID Connect issuer signed it.

`token` verifies one token against an issuer's keys and is pure; `keys` reads key sets (JWKS); `issuers` is
the file that says who is believed, and keeps their keys fresh.
"""
