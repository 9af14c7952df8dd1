"""The demo's orders of an invented shop, as JSON. Equal seeds produce equal orders."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

FIRST_NAMES = (
    "Ada", "Amir", "Bea", "Chidi", "Daria", "Emil", "Freya", "Gustav", "Hana", "Ines", "Jonas", "Kemal", "Lena",
    "Mateo", "Nora", "Oskar", "Paula", "Quentin", "Rosa", "Sven", "Tilda", "Umut", "Vera", "Wim", "Yara", "Zoë",
)  # fmt: skip
LAST_NAMES = (
    "Andersson", "Bianchi", "Costa", "Demir", "Eriksen", "Fischer", "García", "Haddad", "Ivanova", "Jansen", "Kowalski",
    "Laurent", "Meier", "Novak", "Okafor", "Petrov", "Rossi", "Schmidt", "Tanaka", "Virtanen", "Weber", "Zieliński",
)  # fmt: skip
#: Percentage of customers by country.
COUNTRIES = {"DE": 31, "FR": 19, "IT": 13, "ES": 11, "PL": 9, "NL": 8, "SE": 5, "PT": 4}
#: (article number, name, price in cents)
GOODS = (
    ("ESP-1000", "Espresso beans 1 kg", 2190),
    ("FIL-0500", "Filter roast 500 g", 1250),
    ("DEC-0250", "Decaf 250 g", 790),
    ("MUG-BLUE", "Mug, blue", 1400),
    ("MUG-SAND", "Mug, sand", 1400),
    ("DRP-V60", "Dripper V60", 2450),
    ("FLT-0100", "Paper filters, 100", 650),
    ("GRD-HAND", "Hand grinder", 8900),
    ("KET-GOOS", "Gooseneck kettle", 7900),
    ("SCL-1GRM", "Scale, 0.1 g", 4990),
    ("OAT-6PCK", "Oat drink, 6 x 1 l", 1380),
    ("CHO-0070", "Chocolate 70 %", 420),
)
CUSTOMERS = 2_000


class Order(NamedTuple):
    """One order and its record. The key is the customer, so that a customer's orders stay in order in one partition."""

    number: int
    country: str
    cents: int
    key: bytes
    value: bytes


def orders(seed: int, count: int, customers: int = CUSTOMERS) -> Iterator[Order]:
    """Yield orders with the numbers 0 to ``count - 1``; ``customers`` is the number of customers."""
    chance = random.Random(seed)
    countries = chance.choices(list(COUNTRIES), list(COUNTRIES.values()), k=customers)
    people: list[dict[str, Any]] = [
        {"number": number, "name": f"{chance.choice(FIRST_NAMES)} {chance.choice(LAST_NAMES)}", "country": country}
        for number, country in enumerate(countries, start=10_000)
    ]
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    for number in range(count):
        # The square makes low numbers likelier, so that some customers order more often than others.
        buyer = people[int(chance.random() ** 2 * len(people))]
        chosen = [
            (*goods, 1 + (chance.random() < 0.2)) for goods in chance.sample(GOODS, 1 + int(chance.random() ** 2 * 4))
        ]
        lines = [{"article": a, "name": name, "quantity": q, "cents": c} for a, name, c, q in chosen]
        cents = sum(cents * quantity for _, _, cents, quantity in chosen)
        order = {"order": number, "customer": buyer, "items": lines, "total_cents": cents}
        yield Order(number, buyer["country"], cents, str(buyer["number"]).encode(), encode(order).encode())


def read_order(value: bytes) -> tuple[int, str, int]:
    """Return number, country and cents of an order from its JSON; raise ValueError if it is not an order."""
    try:
        order = json.loads(value)
        return int(order["order"]), str(order["customer"]["country"]), int(order["total_cents"])
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"not a JSON order with the fields order, customer.country and total_cents: {value!r:.100}"
        ) from error
