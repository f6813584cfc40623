"""Numbers that people bear in many countries: found with check digit and word, and not else."""

import pytest

from decider.egress import inspect_text, read_rules

NUMBERS = [
    ("bg_egn", "EGN 7523169263"),
    ("hr_oib", "OIB 33392005961"),
    ("lt_asmens_kodas", "asmens kodas 33309240064"),
    ("ee_isikukood", "isikukood 36805280109"),
    ("lv_personas_kods", "personas kods 161175-19997"),
    ("jmbg", "JMBG 0101006500006"),
    ("hu_anum", "adószám 12892312"),
    ("ua_rntrc", "RNOKPP 1759013776"),
    ("ru_inn", "ИНН 7707083893"),
    ("ru_snils", "СНИЛС 112-233-445 95"),
    ("jp_my_number", "My Number 6214 9832 0257"),
    ("sg_uen", "UEN 00192200M"),
    ("ec_cedula", "cedula 1714307103"),
    ("do_cedula", "cédula 001-1391820-5"),
    ("co_nit", "NIT 213.123.432-1"),
    ("ve_rif", "RIF V-11470283-4"),
    ("br_cnpj", "16.727.230/0001-97"),
    ("nz_ird", "IRD 49-091-850"),
    ("za_tin", "SARS 0001339050"),
    ("ca_bc_phn", "PHN 9698 658 215"),
    ("pl_nip", "NIP 856-734-62-15"),
    ("es_cif", "CIF J99216582"),
    ("it_vat_code", "P.IVA 00743110157"),
    ("se_organisationsnummer", "orgnr 123456-7897"),
    ("kr_brn", "BRN 214-81-40731"),
    ("de_passport", "Reisepass C01X00T478"),
    ("de_health_insurance", "KVNR A123456780"),
]
OTHERS = [
    ("is_kennitala", "kennitala 450401-3150", "order 450401-3150"),
    ("my_nric", "MyKad 770305-02-1234", "MyKad 771305-02-1234"),
    ("id_nik", "KTP 3171011708450001", "order 3171011708450001"),
    ("pk_cnic", "42201-0397640-8", "82201-0397640-8"),
    ("mx_rfc", "RFC GODE561231GR8", "RFC GODE561331GR8"),
    ("pe_cui", "CUI 10117410-2", "order 10117410-2"),
    ("uk_utr", "UTR 1955839661", "UTR 2955839661"),
    ("us_ein", "EIN 04-2103594", "order 04-2103594"),
    ("us_ptin", "PTIN P00634642", "part P00634642"),
    ("in_voter", "voter WKH1186253", "part WKH1186253"),
    ("imsi", "IMSI 429011234567890", "job 429011234567890"),
    ("vin", "VIN 1M8GDM9AXKP042788", "VIN 1M8GDM9A5KP042788"),
    ("crypto_wallet", f"wallet 0x{'5c' * 20}", f"commit 0x{'5c' * 20}"),
    ("de_tax_number", "Steuernummer 181/815/08155", "build 181/815/08155"),
    ("de_handelsregister", "Handelsregister HRB 12345", "model HRB 12345"),
]


@pytest.mark.parametrize(("rule", "text"), NUMBERS)
def test_number_with_its_check_digit_is_personal_and_with_another_is_not(rule: str, text: str) -> None:
    assert f"personal:{rule}" in inspect_text(text).flags
    last = text[-1]
    other = chr(ord(last) + 1) if last.isalpha() else str((int(last) + 1) % 10)
    assert f"personal:{rule}" not in inspect_text(text[:-1] + other).flags


@pytest.mark.parametrize(("rule", "text", "without"), OTHERS)
def test_number_is_personal_where_form_and_word_say_so_and_not_else(
    rule: str, text: str, without: str
) -> None:
    assert f"personal:{rule}" in inspect_text(text).flags
    assert f"personal:{rule}" not in inspect_text(without).flags


@pytest.mark.parametrize(
    "text",
    [
        "The build 2031.05.18 took 12 minutes, 4096 files, 99.5 % of 1,234,567 lines",
        "Invoice 2031-00042 of 1,250.00 EUR is due on 2031-06-01; reference 8812-77",
        "commit 9f3ac17be02d58641c7ae39b05f28d6437be1a90 of 3f2c8a1e-9b4d-4c67-8e21-5a9d0b7c6f13",
        "version 10.15.7 on port 8443, 192 KB, ratio 0.8333333333333334, epoch 1957348800",
        "ISBN 978-3-16-148410-0, chapter 12, pages 233-245",
    ],
)
def test_numbers_of_plain_business_are_not_personal(text: str) -> None:
    assert "personal" not in inspect_text(text).flags


def test_check_that_stdnum_does_not_have_refuses_the_file() -> None:
    with pytest.raises(ValueError, match="no check"):
        read_rules("{version: 1, personal: [{id: a-b, pattern: x, check: stdnum.xx.none}]}")
    assert read_rules("{version: 1, personal: [{id: a-b, pattern: x, check: stdnum.luhn}]}").rule_ids
