"""Welcomes people who sign up, and asks after them three days later."""

from datetime import timedelta

from gristmill_guest import Job, Reject, Retry, config, enqueue, handler, log

WHITE_SPACE = " \t\r\n"
PLANS = ("free", "pro")


@handler
def welcome(job: Job) -> dict:
    signup = checked(job.json())
    email, name, plan = signup["email"], signup["name"], signup["plan"]
    domain = email.partition("@")[2]
    if job.attempt == 1 and domain in greylist():
        raise Retry("greylisted", f"{domain} takes new senders at the second try", after=timedelta(seconds=30))

    reminder = signup["reminder"]
    log.info("reminder" if reminder else "signup", domain=domain, plan=plan)
    if not reminder:
        again = {"email": email, "name": name, "plan": plan, "reminder": True}
        enqueue(job.topic, json=again, after=timedelta(days=3), unique=f"reminder:{email}", priority="low")

    greeting = f"Still there, {name}?" if reminder else f"Welcome, {name}!"
    return {"email": email, "name": name, "plan": plan, "greeting": greeting}


def checked(signup: object) -> dict:
    """The signup, tidied up; rejects the job if it is none."""
    if not isinstance(signup, dict):
        raise Reject("bad-payload", "a signup is a JSON object")
    return {
        "email": checked_email(signup.get("email")),
        "name": checked_name(signup.get("name")),
        "plan": checked_plan(signup.get("plan", "free")),
        "reminder": checked_reminder(signup.get("reminder", False)),
    }


def checked_email(email: object) -> str:
    if not isinstance(email, str):
        raise Reject("invalid-email", "the email is missing or no text")
    email = lower_ascii(email.strip(WHITE_SPACE))
    user, _, domain = email.partition("@")
    if email.count("@") != 1 or not user or "." not in domain[1:-1]:
        raise Reject("invalid-email", "the email is no address such as ada@example.org")
    return email


def lower_ascii(text: str) -> str:
    """Other letters stay: lower-casing them is a matter of language, and may change a text's length."""
    return "".join(char.lower() if char.isascii() else char for char in text)


def checked_name(name: object) -> str:
    if not isinstance(name, str):
        raise Reject("invalid-name", "the name is missing or no text")
    # Not `name.split()`: that takes every white space of Unicode apart.
    words = [word for word in name.translate(str.maketrans("\t\r\n", "   ")).split(" ") if word]
    if not words:
        raise Reject("invalid-name", "the name is empty")
    return " ".join(words)


def checked_plan(plan: object) -> str:
    if plan not in PLANS:
        raise Reject("invalid-plan", "the plan is neither free nor pro")
    return plan


def checked_reminder(reminder: object) -> bool:
    if not isinstance(reminder, bool):
        raise Reject("bad-payload", "the reminder is neither true nor false")
    return reminder


def greylist() -> list[str]:
    """Domains that turn new senders away at first."""
    return [domain.strip(WHITE_SPACE) for domain in config.get("greylist", "").split(",")]
