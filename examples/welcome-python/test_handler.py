import json
import unittest
from datetime import timedelta

from gristmill_guest import Links, NoAnswer, Payload, Reject, Response, Retry, enqueue, http, state
from gristmill_guest.testing import NOW, Host
from handler import welcome

ADA = {"email": "ada@example.org", "name": "Ada"}


class Welcome(unittest.TestCase):
    def test_a_signup_is_welcomed(self):
        ending = Host().run(welcome, ADA)
        text = '{"email":"ada@example.org","name":"Ada","plan":"free","greeting":"Welcome, Ada!"}'
        self.assertEqual(ending, Payload(text.encode(), "application/json"))

    def test_a_reminder_asks(self):
        host = Host()
        ending = host.run(welcome, {**ADA, "plan": "pro", "reminder": True})
        self.assertEqual(json.loads(ending.data)["greeting"], "Still there, Ada?")
        self.assertEqual(host.logs, [("info", "reminder", {"domain": "example.org", "plan": "pro"})])
        self.assertEqual(host.enqueued, [])

    def test_a_signup_is_followed_up_after_three_days(self):
        host = Host()
        host.run(welcome, ADA, topic="welcome")
        (job,) = host.enqueued
        self.assertEqual((job.topic, job.unique, job.priority), ("welcome", "reminder:ada@example.org", "low"))
        self.assertEqual(job.not_before, NOW + 259_200_000)
        text = '{"email":"ada@example.org","name":"Ada","plan":"free","reminder":true}'
        self.assertEqual(job.body, Payload(text.encode(), "application/json"))
        self.assertEqual((job.metadata, job.key), ([], None))

    def test_the_log_never_shows_the_address(self):
        host = Host()
        host.run(welcome, ADA)
        self.assertEqual(host.logs, [("info", "signup", {"domain": "example.org", "plan": "free"})])

    def test_email_and_name_are_tidied_up(self):
        ending = Host().run(welcome, {"email": " Ada@Example.ORG\n", "name": "\tŽofie \r\n 陳 "})
        found = json.loads(ending.data)
        self.assertEqual((found["email"], found["name"]), ("ada@example.org", "Žofie 陳"))

    def test_only_ascii_is_lower_cased_and_trimmed(self):
        ending = Host().run(welcome, {"email": "Äda@Example.org", "name": "\u00a0Ada"})
        found = json.loads(ending.data)
        self.assertEqual((found["email"], found["name"]), ("Äda@example.org", "\u00a0Ada"))

    def test_what_is_no_signup_is_rejected(self):
        table = [
            ("bad-payload", ["", "{", "[]", "null", "7", b"\xff", '{"x":NaN}', '"\\ud800"']),
            ("invalid-email", [{}, {**ADA, "email": None}]),
            ("invalid-email", [{**ADA, "email": email} for email in ("", "ada", "@b.c", "a@@b.c", "a@b", "a@.b", "a@b.")]),
            ("invalid-name", [{"email": "a@b.c"}, {**ADA, "name": " \t"}, {**ADA, "name": 7}]),
            ("invalid-plan", [{**ADA, "plan": "gold"}, {**ADA, "plan": None}, {**ADA, "plan": ["pro"]}]),
            ("bad-payload", [{**ADA, "reminder": 1}, {**ADA, "reminder": None}]),
            ("invalid-email", [{"email": "", "name": "", "plan": "", "reminder": ""}]),
        ]
        for code, bodies in table:
            for body in bodies:
                with self.subTest(body=body):
                    ending = Host().run(welcome, body)
                    self.assertIsInstance(ending, Reject)
                    self.assertEqual(ending.code, code)

    def test_a_greylisted_domain_waits_for_the_second_try(self):
        host = Host(config={"greylist": "example.net, example.org"})
        ending = host.run(welcome, ADA, attempt=1)
        self.assertIsInstance(ending, Retry)
        self.assertEqual(ending.code, "greylisted")
        self.assertEqual(ending.message, "example.org takes new senders at the second try")
        self.assertEqual(ending.after, timedelta(seconds=30))
        self.assertIsInstance(host.run(welcome, ADA, attempt=2), Payload)

    def test_a_refused_follow_up_is_a_reject(self):
        ending = Host(denied=frozenset({"welcome"})).run(welcome, ADA, topic="welcome")
        self.assertIsInstance(ending, Reject)
        self.assertEqual(ending.code, "enqueue-failed")

    def test_an_exception_that_nobody_foresaw_is_a_retry(self):
        host = Host()
        ending = host.run(lambda job: {}["missing"], ADA)
        self.assertIsInstance(ending, Retry)
        self.assertEqual((ending.code, ending.message), ("exception", "KeyError: 'missing'"))
        self.assertIn("Traceback", host.logs[0][2]["traceback"])
        self.assertIn(b"in <lambda>", ending.context.data)

    def test_a_request_that_was_refused_is_no_retry(self):
        class HttpError_Denied:
            value = "https://example.org"

        class Err(Exception):
            value = HttpError_Denied()

        def ask(job):
            raise Err()

        ending = Host().run(ask, ADA)
        self.assertIsInstance(ending, Reject)
        self.assertEqual(ending.code, "http-denied")

    def test_a_request_is_answered_by_the_fake(self):
        def ask(job):
            return http.send("POST", "https://example.org", json={"a": 1}, timeout=timedelta(seconds=2)).json()["b"]

        host = Host(answers=[Response(201, body=b'{"b": "fine"}'), NoAnswer("http-timeout", "no answer in time")])
        self.assertEqual(host.run(ask).data, b"fine")
        (request,) = host.requests
        self.assertEqual((request.method, request.body, request.timeout), ("POST", b'{"a":1}', 2000))
        self.assertEqual(request.headers, [("content-type", "application/json")])
        self.assertEqual(host.run(ask).code, "http-timeout")
        refused = host.run(ask)
        self.assertIsInstance(refused, Reject)
        self.assertEqual(refused.code, "http-denied")

    def test_a_completed_job_leaves_a_state_to_the_next_one_of_its_key(self):
        def count(job):
            state.set_json(state.json(0) + 1)
            if job.text() == "fail":
                raise Retry("late", "after the fact")

        host = Host(state_limit=1)
        for body, left in [("", b"1"), ("fail", b"1"), ("", b"2")]:
            host.run(count, body, key="k")
            self.assertEqual(host.state, left)
        self.assertEqual(host.run(count, "").code, "no-key")
        host.state = b"9"
        self.assertEqual(host.run(count, "", key="k").code, "state-too-large")
        self.assertEqual(host.state, b"9")

    def test_a_follow_up_waits_for_the_job_that_runs_and_is_a_batch_of_others(self):
        def fan_out(job):
            report = enqueue("report", after_jobs=[job.id], after_failed="run")
            enqueue("row", batch=report)

        host = Host()
        host.run(fan_out, id="first")
        report, row = (job.links for job in host.enqueued)
        self.assertEqual(report, Links(["first"], "run"))
        self.assertEqual(row, Links(batch="01K1" + "1".rjust(22, "0")))


if __name__ == "__main__":
    unittest.main()
