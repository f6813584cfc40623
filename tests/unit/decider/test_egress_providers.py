"""Keys of many providers, made up here at run time by their published forms: found; look-alikes are not.

`FORMS` writes a key as its provider shapes it: `<h40>` is 40 hexadecimal digits, `<a36>` letters and digits,
`<l20>` lower-case letters and digits, `<u16>` upper-case ones, `<d12>` digits, `<b43>` base64, `<g>` a UUID,
`<5>` base58, `<2>` base32. Nobody issued any of them.
"""

import base64
import binascii
import random
import re
from hashlib import sha256
from importlib.resources import files

import pytest

from decider.egress import inspect_text, read_rules

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SIGNS = {
    "h": "0123456789abcdef",
    "a": LETTERS + LETTERS.upper() + "0123456789",
    "l": LETTERS + "0123456789",
    "u": LETTERS.upper() + "0123456789",
    "d": "123456789",
    "b": LETTERS + LETTERS.upper() + "0123456789",
    "w": LETTERS + LETTERS.upper(),
    "2": LETTERS.upper() + "234567",
    "s": LETTERS + "234567",
    "5": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
    "n": "023456789acdefghjklmnpqrstuvwxyz",
    "H": "0123456789ABCDEF",
}
FORMS = {
    "google-service-account-key": '"private_key_id": "<h40>"',
    "google-refresh-token": "1//0<a60>",
    "google-fcm-key": "AAAA<a7>:APA91b<a134>",
    "google-hmac-key": "GOOG1E<u55>",
    "aws-session-token": "FwoGZXIvYXdz<a200>",
    "aws-appsync-key": "da2-<l26>",
    "amazon-login-token": "Atza|<a100>",
    "amazon-login-secret": "amzn1.oa2-cs.v1.<h64>",
    "azure-app-configuration-key": "Endpoint=https://shop.azconfig.io;Id=<a8>;Secret=<b43>=",
    "azure-cognitive-key": "Ocp-Apim-Subscription-Key: <h32>",
    "azure-devops-legacy-token": "AZURE_DEVOPS_EXT_PAT=<s52>",
    "digitalocean-spaces-key": "DO00<u16>",
    "scaleway-key": "SCW<u17>",
    "ovh-key": "OVH_CONSUMER_KEY=<a32>",
    "railway-token": "RAILWAY_TOKEN=<g>",
    "vercel-blob-token": "vercel_blob_rw_<a16>_<a30>",
    "vercel-access-token": "vcp_<a56>",
    "cloudflare-token": "cfut_<a48>",
    "volcengine-key": "AKLT<a44>",
    "baidu-cloud-key": "bce-v3/ALTAK-<a21>/<h40>",
    "aiven-password": "AVNS_<a19>",
    "cockroach-key": "CCDB1_<a22>_<a40>",
    "mongodb-atlas-secret": "mdb_sa_sk_<a40>",
    "confluent-secret": "cflt<b60>",
    "dbt-token": "dbtc_<a44>",
    "nebula-token": "dnkey-<a26>-<a52>",
    "netbird-token": "nbp_<a36>",
    "infisical-token": "st.<h24>.<h32>.<h32>",
    "bitwarden-token": "0.<g>.<a30>:<b22>==",
    "consul-nomad-token": "CONSUL_HTTP_TOKEN=<g>",
    "rancher-token": "token-<l5>:<l54>",
    "kubernetes-join-token": "kubeadm join 10.0.0.1:6443 --token <l6>.<l16>",
    "k3s-token": "K10<h64>::server:<h32>",
    "docker-swarm-token": "SWMTKN-1-<l50>-<l25>",
    "docker-registry-auth": '{"auths": {"r.example": {"auth": "<b40>"}}}',
    "wireguard-key": "PrivateKey = <b43>=",
    "github-client-secret": "GITHUB_CLIENT_SECRET=<h40>",
    "gitea-token": "gitea_token: <h40>",
    "jenkins-token": "JENKINS_API_TOKEN=11<h32>",
    "teamcity-token": "eyJ0eXAiOiAiVENWMiJ9.<a36>.<a48>",
    "appveyor-token": "v2.<l20>",
    "deno-token": "ddp_<a36>",
    "snyk-token": "snyk_uat.<h8>.<a60>",
    "semgrep-token": "SEMGREP_APP_TOKEN=<h64>",
    "gitpod-token": "gitpod_pat_<a50>",
    "codesandbox-token": "csb_v1_<a43>",
    "checkly-key": "cu_<h32>",
    "wakatime-key": "waka_<g>",
    "inngest-key": "signkey-prod-<h64>",
    "trigger-key": "tr_prod_<a22>",
    "django-secret-key": "django-insecure-<a50>",
    "laravel-key": "APP_KEY=base64:<b43>=",
    "unkey-key": "unkey_<a24>",
    "ory-token": "ory_pat_<a40>",
    "stytch-secret": "secret-live-<a36>",
    "ghost-admin-key": "<h24>:<h64>",
    "ably-key": "ABLY_API_KEY=<a6>.<a6>:<a43>",
    "liveblocks-key": "sk_prod_<a64>",
    "model-key": "sk-<a48>",
    "anthropic-session-key": "sk-ant-sid01-<a90>",
    "fireworks-key": "fw_<a24>",
    "friendli-token": "flp_<a46>",
    "runpod-key": "rpa_<u44>",
    "e2b-key": "e2b_<h40>",
    "firecrawl-key": "fc-<h32>",
    "browserbase-key": "bb_live_<a27>",
    "llamaindex-key": "llx-<a48>",
    "chroma-key": "ck-<a44>",
    "helicone-key": "sk-helicone-<l30>",
    "voiceflow-key": "VF.DM.<h24>.<a16>",
    "apify-token": "apify_api_<a36>",
    "modal-token": "MODAL_TOKEN_SECRET=as-<a22>",
    "slack-browser-token": "xoxc-<d12>-<d12>-<d13>-<h64>",
    "matrix-token": "syt_<b12>_<w20>_<a6>",
    "twilio-auth-token": "TWILIO_AUTH_TOKEN=<h32>",
    "telnyx-key": "KEY0<H31>_<a22>",
    "vonage-secret": "VONAGE_API_SECRET=<a16>",
    "plivo-key": "PLIVO_AUTH_TOKEN=<a40>",
    "mailersend-token": "mlsn.<h64>",
    "sparkpost-key": "SPARKPOST_API_KEY=<h40>",
    "brevo-smtp-key": "xsmtpsib-<h64>-<a16>",
    "onesignal-key": "os_v2_app_<s103>",
    "courier-key": "pk_prod_<u28>",
    "zoho-token": "1000.<h32>.<h32>",
    "feishu-webhook": "https://open.feishu.cn/open-apis/bot/v2/hook/<g>",
    "dingtalk-webhook": "https://oapi.dingtalk.com/robot/send?access_token=<h64>",
    "wecom-webhook": "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=<g>",
    "ifttt-webhook": "https://maker.ifttt.com/trigger/door/with/key/<a43>",
    "make-webhook": "https://hook.eu1.make.com/<l32>",
    "paypal-secret": "PAYPAL_CLIENT_SECRET=E<a79>",
    "revolut-key": "oa_prod_<a43>",
    "mollie-key": "MOLLIE_KEY=live_<a30>",
    "xendit-key": "xnd_production_<a50>",
    "midtrans-key": "Mid-server-<a24>",
    "cashfree-key": "cfsk_ma_prod_<h32>_<h8>",
    "pagarme-key": "ak_live_<a30>",
    "chargebee-key": "CHARGEBEE_KEY=live_<a32>",
    "checkout-key": "sk_sbox_27<s24>",
    "woocommerce-key": "ck_<h40>",
    "binance-key": "BINANCE_SECRET=<a64>",
    "extended-private-key": "xprv<5107>",
    "ethereum-private-key": "DEPLOYER_PRIVATE_KEY=0x<h64>",
    "nostr-secret-key": "nsec1<n58>",
    "asana-access-token": "2/<d16>/<d16>:<h32>",
    "linear-oauth-token": "lin_oauth_<h64>",
    "todoist-token": "TODOIST_TOKEN=<h40>",
    "sanity-token": "SANITY_TOKEN=sk<a120>",
    "salesforce-refresh-token": "5Aep861<a80>",
    "salesforce-consumer-key": "3MVG9<a80>",
    "pipedrive-token": "PIPEDRIVE_API_TOKEN=<h40>",
    "shopify-user-token": "shpua_<h32>",
    "figma-oauth-token": "figu_<a44>",
    "spotify-secret": "SPOTIFY_CLIENT_SECRET=<h32>",
    "openweather-key": "OPENWEATHER_API_KEY=<h32>",
    "locationiq-token": "pk.<h32>",
    "pinterest-token": "pina_<u80>",
    "tiktok-token": "act.<a70>",
    "roblox-cookie": "_|WARNING:-DO-NOT-SHARE-THIS.--This-opens-your-account|_<H120>",
    "home-assistant-token": "HASS_TOKEN=<h183>",
    "jotform-key": "JOTFORM_API_KEY=<h32>",
    "mixpanel-secret": "MIXPANEL_SECRET=<h32>",
    "box-secret": "BOX_CLIENT_SECRET=<a32>",
    "connection-string-password": "Server=db.example;Database=shop;User Id=sa;Password=<a14>;",
    "netrc-password": "machine git.example login ada password <a16>",
    "sshpass-password": "sshpass -p <a12> ssh ada@host",
    "powershell-password": "ConvertTo-SecureString '<a14>' -AsPlainText -Force",
    "database-command-password": "mysql -u root -p<a14> shop",
    "query-token": "https://api.example/v1/list?page=1&access_token=<a32>",
}
HOLE = re.compile(r"<([a-zA-Z2-5])(\d*)>")


def made(form: str, seed: int) -> str:
    """Fill the holes of a form; the same for the same seed."""
    chosen = random.Random(f"{form}{seed}")

    def fill(hole: re.Match[str]) -> str:
        if hole[1] == "g":
            return "-".join("".join(chosen.choices(SIGNS["h"], k=size)) for size in (8, 4, 4, 4, 12))
        return "".join(chosen.choices(SIGNS[hole[1]], k=int(hole[2])))

    return HOLE.sub(fill, form)


def cut(form: str) -> str:
    """Return a form whose holes are a third as long: what only begins like a key."""
    return HOLE.sub(lambda hole: f"<{hole[1]}{int(hole[2] or 36) // 3}>".replace("<g", "<h"), form)


def placeholder(form: str) -> str:
    """Return what documentation writes in place of the key."""
    return HOLE.sub(lambda hole: "X" * int(hole[2] or 36), form)


def flags(text: str) -> tuple[str, ...]:
    return inspect_text(text).flags


@pytest.mark.parametrize("rule", FORMS)
def test_key_by_its_form_is_found_and_its_beginning_and_its_placeholder_are_not(rule: str) -> None:
    for seed in range(3):
        assert f"secret:{rule}" in flags(f"here: {made(FORMS[rule], seed)} .")
    if "password" not in rule and rule != "query-token":
        assert f"secret:{rule}" not in flags(f"here: {made(cut(FORMS[rule]), 1)} .")
    assert f"secret:{rule}" not in flags(f"here: {placeholder(FORMS[rule])} .")


def test_private_keys_of_chains_are_told_from_look_alikes_by_their_check_sum() -> None:
    key = b"\x80" + sha256(b"nobody").digest()
    number = int.from_bytes(key + sha256(sha256(key).digest()).digest()[:4], "big")
    wif = ""
    while number:
        number, rest = divmod(number, 58)
        wif = SIGNS["5"][rest] + wif
    seed = bytes([18 << 3]) + sha256(b"nobody either").digest()
    stellar = base64.b32encode(seed + binascii.crc_hqx(seed, 0).to_bytes(2, "little")).decode()
    for rule, text in (("bitcoin-private-key", wif), ("stellar-secret-seed", stellar)):
        assert f"secret:{rule}" in flags(f"it is {text} now")
        other = "2" if text[20] != "2" else "3"
        assert f"secret:{rule}" not in flags(f"it is {text[:20] + other + text[21:]} now")


ALIKE = {
    "a UUID": "order <g>",
    "a git commit": "commit <h40> fixes it",
    "an SHA-256": "sha256:<h64>",
    "an MD5": "etag <h32>",
    "a Message-ID": "Message-ID: <CA+<a40>@mail.gmail.com>",
    "a picture": "data:image/png;base64,iVBORw0KGgo<b200>",
    "a public key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI<b43> ada@host",
    "an integrity": 'integrity="sha384-<b64>"',
    "a trace": "traceparent: 00-<h32>-<h16>-01",
    "a revision": "go.sum github.com/a/b v1.2.3 h1:<b43>=",
    "an account": "arn:aws:iam::<d12>:role/<w12>",
    "a document": "https://docs.google.com/document/d/1<a43>/edit",
    "a video": "https://www.youtube.com/watch?v=<a11>",
    "an image": "registry.example/app@sha256:<h64>",
    "a transaction": "0x<h64>",
    "a file": "s3://bucket/<l8>/<h32>.parquet",
    "a session of a page": "https://shop.example/p?id=<d10>&ref=<l12>",
    "an issue": "see PROJ-<d4> and #<d4>",
    "a phrase": "the token is in the vault, the key under the mat, the password with <w7>",
    "code": "def get_<l8>_token(self, api_key: str) -> str: return self.<w9>_key",
    "a parcel": "1Z<u16>",
    "a build": "build_<d10>_<l7>",
    "an object": "ObjectId('<h24>')",
    "a fingerprint": "SHA256:<b43>",
    "a thread": "thread_<a24>",
}


def test_what_only_looks_random_is_no_secret_once_in_a_hundred() -> None:
    wrong = {
        (name, seed) for name in ALIKE for seed in range(12) if "secret" in flags(made(ALIKE[name], seed))
    }
    assert len(wrong) <= 0.01 * 12 * len(ALIKE), sorted(wrong)


def test_every_format_of_the_file_has_a_sample() -> None:
    book = read_rules(files("decider.egress").joinpath("providers.yaml").read_text("utf-8"))
    assert set(book.rule_ids) == FORMS.keys() | {"bitcoin-private-key", "stellar-secret-seed"}
