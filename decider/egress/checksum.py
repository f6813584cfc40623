"""Checks of numbers that people bear: each says whether a find is what it looks like.

The sums are python-stdnum's and phonenumbers' work; what is written here are shapes they leave open. Every
check takes the find as it stood in the text and never raises.
"""

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

from stdnum import bitcoin, iban, imei, luhn, verhoeff
from stdnum.ar import cuit
from stdnum.at import vnr
from stdnum.au import abn, acn, tfn
from stdnum.be import nn as be_nn
from stdnum.br import cpf
from stdnum.ca import sin
from stdnum.ch import ssn
from stdnum.cl import rut
from stdnum.cn import ric
from stdnum.cz import rc
from stdnum.dk import cpr
from stdnum.es import nie
from stdnum.exceptions import ValidationError
from stdnum.fi import hetu
from stdnum.fr import nir
from stdnum.gb import nhs
from stdnum.gr import amka
from stdnum.hu import anum
from stdnum.ie import pps
from stdnum.il import idnr as il_idnr
from stdnum.iso7064 import mod_11_10
from stdnum.it import codicefiscale, iva
from stdnum.mx import curp
from stdnum.nl import bsn
from stdnum.no import fodselsnummer
from stdnum.pl import pesel
from stdnum.pt import nif as pt_nif
from stdnum.ro import cnp
from stdnum.se import personnummer
from stdnum.tr import tckimlik
from stdnum.us import rtn
from stdnum.za import idnr as za_idnr

Check = Callable[[str], bool]

_CARD_LENGTHS: Final = {"3": (14, 15), "4": (13, 16, 19), "5": (16,), "6": (16, 17, 18, 19), "2": (16,)}
_NOT_ISSUED: Final = frozenset({"000", "666"})
_NINO_NOT_ISSUED: Final = frozenset({"BG", "GB", "KN", "NK", "NT", "TN", "ZZ"})
_VIN_VALUES: Final = dict(
    zip("0123456789ABCDEFGHJKLMNPRSTUVWXYZ", map(int, "012345678912345678123457923456789"), strict=True)
)
_NIF_LETTERS: Final = "TRWAGMYFPDXBNJZSQVHLCKE"
_HETU_CENTURIES: Final = {"B": "A", "C": "A", "D": "A", "E": "A", "F": "A"} | dict.fromkeys("YXWVU", "-")


def digits_of(text: str) -> str:
    """Return the digits of a text."""
    return "".join(char for char in text if char.isascii() and char.isdigit())


def _stdnum(module: Any) -> Check:
    def check(found: str) -> bool:
        try:
            module.validate(found)
        except (ValidationError, ValueError, IndexError):
            return False
        return True

    return check


def _card(found: str) -> bool:
    number = digits_of(found)
    lengths = _CARD_LENGTHS.get(number[:1], ())
    return len(number) in lengths and len(set(number)) > 1 and luhn.is_valid(number)


def _iban(found: str) -> bool:
    """Say whether it begins with an IBAN: words that follow it may have been taken along."""
    pieces = re.split(r"[ -]", found)
    begun = ("".join(pieces[:end]) for end in range(len(pieces), 0, -1))
    # no one writes a number in both cases
    return any((text.isupper() or text.islower()) and iban.is_valid(text.upper()) for text in begun)


def _us_ssn(found: str) -> bool:
    number = digits_of(found)
    separators = set(re.findall(r"[- .]", found))
    return (
        len(number) == 9
        and len(separators) <= 1
        and number[:3] not in _NOT_ISSUED
        and number[0] != "9"
        and number[3:5] != "00"
        and number[5:] != "0000"
        and len(set(number)) > 1
    )


def _us_itin(found: str) -> bool:
    return len(digits_of(found)) == 9


def _us_npi(found: str) -> bool:
    number = digits_of(found)
    return len(set(number)) > 1 and luhn.is_valid("80840" + number)


def _uk_nino(found: str) -> bool:
    packed = found.replace(" ", "").upper()
    return packed[:2] not in _NINO_NOT_ISSUED


def _ca_sin(found: str) -> bool:
    separators = re.findall(r"[ -]", found)
    return len(separators) in {0, 2} and len(set(separators)) <= 1 and bool(sin.is_valid(digits_of(found)))


def _au_medicare(found: str) -> bool:
    number = digits_of(found)
    weights = (1, 3, 7, 9, 1, 3, 7, 9)
    return sum(w * int(d) for w, d in zip(weights, number, strict=False)) % 10 == int(number[8])


def _de_tax_id(found: str) -> bool:
    """No digit stands more than three times in one; since 2016 one may stand three times."""
    number = digits_of(found)
    return max(map(number[:10].count, number[:10])) <= 3 and bool(mod_11_10.is_valid(number))


def _de_social_security(found: str) -> bool:
    found = found.replace(" ", "")
    letter = f"{ord(found[8]) - 64:02d}"
    number = found[:8] + letter + found[9:]
    weights = (2, 1, 2, 5, 7, 1, 2, 1, 2, 1, 2, 1)
    total = sum(sum(divmod(w * int(d), 10)) for w, d in zip(weights, number[:12], strict=True))
    month = int(found[4:6])  # the day may carry a mark that keeps equal numbers apart
    return total % 10 == int(number[12]) and 1 <= month <= 12


def _es_nif(found: str) -> bool:
    number, letter = digits_of(found), found[-1].upper()
    return _NIF_LETTERS[int(number) % 23] == letter


def _fi_hetu(found: str) -> bool:
    """Later signs of a century stand for the older ones; stdnum knows the older ones alone."""
    packed = found.upper()
    older = packed[:6] + _HETU_CENTURIES.get(packed[6], packed[6]) + packed[7:]
    try:
        hetu.validate(older, allow_temporary=True)
    except ValidationError:
        return False
    return True


def _aadhaar(found: str) -> bool:
    number = digits_of(found)
    return number != number[::-1] and bool(verhoeff.is_valid(number))


def _it_fiscal_code(found: str) -> bool:
    packed = found.upper()
    return bool(codicefiscale.calc_check_digit(packed[:-1]) == packed[-1])


def _kr_brn(found: str) -> bool:
    """A Korean firm's number: nine weighed digits, the tens of the ninth's product once more."""
    digits = [int(char) for char in digits_of(found)]
    total = _weighed(digits, (1, 3, 7, 1, 3, 7, 1, 3, 5)) + digits[8] * 5 // 10
    return len(set(digits)) > 1 and -total % 10 == digits[9]


def _kr_rrn(found: str) -> bool:
    number = digits_of(found)
    return int(number[7:9]) <= 96  # the registering district


def _th_citizen(found: str) -> bool:
    number = digits_of(found)
    if (
        number[1:3] in {"00", "28", "29", "59", "68", "69", "78", "79", "87", "88", "89"}
        or number[1:3] > "96"
    ):
        return False
    total = sum((13 - place) * int(digit) for place, digit in enumerate(number[:12]))
    return (11 - total % 11) % 10 == int(number[12])


def _ip(found: str) -> bool:
    """Say whether it is an address; `::` alone is C++, and 127.0.0.1 nobody's."""
    try:
        ipaddress.ip_address(re.split("[%/]", found)[0])
    except ValueError:
        return False
    return found not in {"::", "127.0.0.1"}


def _mac(found: str) -> bool:
    separators = set(re.findall(r"[:.-]", found))
    return len(separators) == 1 and len(set(re.sub(r"[:.-]", "", found))) > 1


def _za_id(found: str) -> bool:
    if not za_idnr.is_valid(found):
        return False
    try:
        date(2000, int(found[2:4]), int(found[4:6]))
    except ValueError:
        return False
    return found[10] in "01" and luhn.is_valid(found)


def _us_dea(found: str) -> bool:
    """The last digit is that of the first, third and fifth plus twice the second, fourth and sixth."""
    digits = [int(char) for char in found[2:]]
    total = sum(digits[0:6:2]) + 2 * sum(digits[1:6:2])
    return total % 10 == digits[6] and len(set(digits)) > 1


def _personnummer(found: str) -> bool:
    return bool(personnummer.is_valid(found)) and found[-10:].strip("-+") != ""


def _weighed(digits: Iterable[int], weights: Iterable[int]) -> int:
    return sum(digit * weight for digit, weight in zip(digits, weights, strict=False))


def _icao(found: str) -> bool:
    """The last digit is the check digit of ICAO 9303 over the rest, and not all are letters."""
    body = found[:-1].upper()
    total = _weighed((int(char, 36) for char in body), (7, 3, 1) * 3)
    return any(char.isdigit() for char in body) and total % 10 == int(found[-1])


def _digits(found: str) -> bool:
    return sum(char.isdigit() for char in found) >= 3


def _de_kvnr(found: str) -> bool:
    """A health insurance number: the letter as two digits, each second one doubled, digit sums."""
    number = f"{ord(found[0].upper()) - 64:02d}{found[1:]}"
    total = sum(sum(divmod(int(d) * (1 + place % 2), 10)) for place, d in enumerate(number[:-1]))
    return total % 10 == int(number[-1])


def _de_lanr(found: str) -> bool:
    """A physician's number: six digits weighed 4 and 9, what is missing to a ten, two of the field."""
    return len(set(found)) > 1 and -_weighed(map(int, found[:6]), (4, 9) * 3) % 10 == int(found[6])


def _snils(found: str) -> bool:
    number = digits_of(found)
    total = _weighed(map(int, number[:9]), range(9, 0, -1)) % 101
    return len(set(number)) > 1 and total % 100 == int(number[9:])


def _vin(found: str) -> bool:
    """A vehicle's number by ISO 3779 with the check digit of North America; letters and digits both."""
    values = [_VIN_VALUES[char] for char in found.upper()]
    rest = _weighed(values, (8, 7, 6, 5, 4, 3, 2, 10, 0, 9, 8, 7, 6, 5, 4, 3, 2)) % 11
    return found[8].upper() == "0123456789X"[rest] and 2 <= sum(map(str.isalpha, found)) <= 12


def _it_iva(found: str) -> bool:
    number = digits_of(found)
    return len(set(number)) > 1 and bool(iva.is_valid(number))


def _hu_anum(found: str) -> bool:
    return bool(anum.is_valid(digits_of(found)[:8]))


@cache
def named(name: str) -> Check | None:
    """Return the check of that name, or `stdnum.xx.yy`'s; None where there is none."""
    if not re.fullmatch(r"stdnum(?:\.[a-z_]{2,12}){1,2}", name):
        return CHECKS.get(name)
    try:
        module = import_module(name)
    except ImportError:
        return None
    return _stdnum(module) if hasattr(module, "validate") else None


CHECKS: Final[Mapping[str, Check]] = MappingProxyType(
    {
        "any": lambda _: True,
        "aadhaar": _aadhaar,
        "aba": _stdnum(rtn),
        "au_abn": _stdnum(abn),
        "au_acn": _stdnum(acn),
        "au_medicare": _au_medicare,
        "au_tfn": _stdnum(tfn),
        "bitcoin": _stdnum(bitcoin),
        "ca_sin": _ca_sin,
        "card": _card,
        "de_kvnr": _de_kvnr,
        "de_lanr": _de_lanr,
        "de_social_security": _de_social_security,
        "de_tax_id": _de_tax_id,
        "digits": _digits,
        "es_nie": _stdnum(nie),
        "es_nif": _es_nif,
        "fi_hetu": _fi_hetu,
        "hu_anum": _hu_anum,
        "iban": _iban,
        "icao": _icao,
        "ip": _ip,
        "it_iva": _it_iva,
        "it_fiscal_code": _it_fiscal_code,
        "kr_brn": _kr_brn,
        "kr_rrn": _kr_rrn,
        "mac": _mac,
        "pl_pesel": _stdnum(pesel),
        "snils": _snils,
        "vin": _vin,
        "se_personnummer": _personnummer,
        "th_citizen": _th_citizen,
        "tr_national_id": _stdnum(tckimlik),
        "uk_nhs": _stdnum(nhs),
        "uk_nino": _uk_nino,
        "us_itin": _us_itin,
        "us_npi": _us_npi,
        "us_ssn": _us_ssn,
        "ar_cuit": _stdnum(cuit),
        "at_svnr": _stdnum(vnr),
        "be_nn": _stdnum(be_nn),
        "br_cpf": _stdnum(cpf),
        "ch_ahv": _stdnum(ssn),
        "cl_rut": _stdnum(rut),
        "cn_ric": _stdnum(ric),
        "cz_rc": _stdnum(rc),
        "dk_cpr": _stdnum(cpr),
        "fr_nir": _stdnum(nir),
        "gr_amka": _stdnum(amka),
        "ie_pps": _stdnum(pps),
        "il_id": _stdnum(il_idnr),
        "imei": _stdnum(imei),
        "mx_curp": _stdnum(curp),
        "nl_bsn": _stdnum(bsn),
        "no_fodselsnummer": _stdnum(fodselsnummer),
        "pt_nif": _stdnum(pt_nif),
        "ro_cnp": _stdnum(cnp),
        "us_dea": _us_dea,
        "za_id": _za_id,
    }
)
"""Every check by the name that the rule file uses. A rule that names another is refused when it is read."""
