"""Money in a call's arguments: an integer of minor units and an ISO 4217 code, never a float."""

from dataclasses import dataclass

# ISO 4217 currencies whose minor unit is not a hundredth.
_DIGITS = {
    **dict.fromkeys(
        (
            "BIF",
            "CLP",
            "DJF",
            "GNF",
            "ISK",
            "JPY",
            "KMF",
            "KRW",
            "PYG",
            "RWF",
            "UGX",
            "UYI",
            "VND",
            "VUV",
            "XAF",
            "XOF",
            "XPF",
        ),
        0,
    ),
    **dict.fromkeys(("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"), 3),
    **dict.fromkeys(("CLF", "UYW"), 4),
}


@dataclass(frozen=True, slots=True)
class Money:
    """Where money stands in the arguments: paths of the amount in minor units and of the currency."""

    amount: str
    currency: str


def spell_amount(amount_minor: int, currency: str) -> str:
    """Return an amount of minor units in major ones, exactly: `5000` and `USD` give `50.00`."""
    digits = _DIGITS.get(currency, 2)
    sign, number = ("-" if amount_minor < 0 else ""), str(abs(amount_minor)).zfill(digits + 1)
    return f"{sign}{number[:-digits]}.{number[-digits:]}" if digits else f"{sign}{number}"
