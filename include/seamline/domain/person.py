"""Texts of people as the log of acts keeps them: on one line, and a name that is nothing but a name."""


def one_line(text: object) -> str:
    """As terminals may show it too: nothing in it moves a cursor."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in str(text or "")).split())


def person_of(name: object) -> str:
    """As a signature has it: a name with a colon could pass for a name and a reason."""
    return one_line(str(name or "").replace(":", " "))


def is_same_person(name: object, other: object) -> bool:
    """Two names that differ by case alone are one person's: Airflow's managers of logins with a directory, or with
    Keycloak, let a person in by either. The platform database compares them alike (`seamline.same_person`)."""
    return person_of(name).lower() == person_of(other).lower()
