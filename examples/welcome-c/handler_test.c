#include "gristmill_fake.h"

#include <stdio.h>

static int failures;

#define CHECK(condition) \
  ((condition) ? (void)0 : (failures++, (void)fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition)))

#define ADA "{\"email\":\"ada@example.org\",\"name\":\"Ada\"}"
#define SIGNUP(fields) "{\"email\":\"ada@example.org\",\"name\":\"Ada\"," fields "}"
#define RESULT(name, plan, greeting) \
  "{\"email\":\"ada@example.org\",\"name\":\"" name "\",\"plan\":\"" plan "\",\"greeting\":\"" greeting "\"}"

static bool is(gm_text text, const char *expected) { return gm_equal(text, (gm_text){expected, strlen(expected)}); }

static bool results_in(gm_ending ending, const char *json) {
  return !ending.failed && !ending.outcome.snoozed && ending.outcome.result.some &&
         is(ending.outcome.result.payload.data, json) &&
         is(ending.outcome.result.payload.content_type.value, "application/json");
}

static bool rejected(gm_ending ending, const char *code) {
  return ending.failed && ending.failure.rejected && is(ending.failure.detail.code, code) &&
         gm_fake.enqueued_count == 0 && gm_fake.line_count == 0;
}

static void a_signup_is_greeted(void) {
  CHECK(results_in(gm_fake_run("{\"email\":\" Ada@Example.ORG\\n\",\"name\":\"\\tAda  King \",\"plan\":\"pro\",\"x\":[{}]}"),
                   RESULT("Ada King", "pro", "Welcome, Ada King!")));
}

static void text_stays_as_it_is(void) {
  CHECK(results_in(gm_fake_run(SIGNUP("\"name\":\"\\u017dofie \xF0\x9F\xA6\x80\\ud83e\\udd80\\u2028\\/\\b\\u001F<\"")),
                   RESULT("\xC5\xBDofie \xF0\x9F\xA6\x80\xF0\x9F\xA6\x80\xE2\x80\xA8/\\b\\u001f<", "free",
                          "Welcome, \xC5\xBDofie \xF0\x9F\xA6\x80\xF0\x9F\xA6\x80\xE2\x80\xA8/\\b\\u001f<!")));
  gm_text zero = GM(SIGNUP("\"name\":\"A\\u0000\""));
  CHECK(results_in(gm_fake_run_text(zero), RESULT("A\\u0000", "free", "Welcome, A\\u0000!")));
}

static void a_reminder_is_asked_for(void) {
  gm_fake.now = 1000;
  gm_fake_run(ADA);
  CHECK(gm_fake.enqueued_count == 1);
  gm_new_job job = gm_fake.enqueued[0];
  CHECK(is(job.topic, "test"));
  CHECK(is(job.body.data, "{\"email\":\"ada@example.org\",\"name\":\"Ada\",\"plan\":\"free\",\"reminder\":true}"));
  CHECK(is(job.body.content_type.value, "application/json"));
  CHECK(job.not_before.some && job.not_before.value == 259201000);
  CHECK(job.unique.some && is(job.unique.value, "reminder:ada@example.org") && !job.unique_window.some);
  CHECK(job.priority == GM_LOW && !job.key.some && job.metadata.size == 0);
}

static void a_reminder_asks_for_none(void) {
  CHECK(results_in(gm_fake_run(SIGNUP("\"reminder\":true")), RESULT("Ada", "free", "Still there, Ada?")));
  CHECK(gm_fake.enqueued_count == 0 && is(gm_fake.lines[0].message, "reminder"));
}

static void a_reminder_that_is_refused_is_rejected(void) {
  gm_fake.enqueue_error = GM_DENIED;
  gm_ending ending = gm_fake_run(ADA);
  CHECK(ending.failed && ending.failure.rejected && is(ending.failure.detail.code, "enqueue-failed"));
}

static void the_log_keeps_the_address_out(void) {
  gm_fake_run(ADA);
  CHECK(gm_fake.line_count == 1 && gm_fake.lines[0].level == GM_INFO && is(gm_fake.lines[0].message, "signup"));
  gm_pairs fields = gm_fake.lines[0].fields;
  CHECK(fields.size == 2);
  CHECK(is(fields.data[0].name, "domain") && is(fields.data[0].value, "example.org"));
  CHECK(is(fields.data[1].name, "plan") && is(fields.data[1].value, "free"));
}

static void a_greylisted_domain_is_taken_at_the_second_try(void) {
  gm_fake.config = GM_PAIRS({GM("greylist"), GM("example.net, example.org ,")});
  gm_ending ending = gm_fake_run(ADA);
  CHECK(ending.failed && !ending.failure.rejected && is(ending.failure.detail.code, "greylisted"));
  CHECK(is(ending.failure.detail.message, "example.org takes new senders at the second try"));
  CHECK(ending.failure.detail.after.some && ending.failure.detail.after.value == 30000);
  gm_fake.attempt = 2;
  CHECK(results_in(gm_fake_run(ADA), RESULT("Ada", "free", "Welcome, Ada!")));
}

static void a_bad_signup_is_rejected(void) {
  static const struct {
    const char *body, *code;
  } cases[] = {
      {"", "bad-payload"},
      {"null", "bad-payload"},
      {"[]", "bad-payload"},
      {ADA ADA, "bad-payload"},
      {"{\"email\":\"\xFF\"}", "bad-payload"},
      {"{\"email\":\"\xED\xA0\x80\"}", "bad-payload"},
      {"{\"email\":\"\xF0\x9F\xA6\"}", "bad-payload"},
      {SIGNUP("\"x\":\"\\ud800\""), "bad-payload"},
      {SIGNUP("\"x\":\"\\ud800\\u0041\""), "bad-payload"},
      {SIGNUP("\"x\":\"\\u12"), "bad-payload"},
      {SIGNUP("\"x\":01"), "bad-payload"},
      {SIGNUP("\"x\":1."), "bad-payload"},
      {SIGNUP("\"x\":[1,]"), "bad-payload"},
      {SIGNUP(""), "bad-payload"},
      {SIGNUP("\"reminder\":null"), "bad-payload"},
      {SIGNUP("\"reminder\":\"true\""), "bad-payload"},
      {"{}", "invalid-email"},
      {"{\"email\":1,\"name\":\"\",\"plan\":1}", "invalid-email"},
      {SIGNUP("\"email\":\"ada\""), "invalid-email"},
      {SIGNUP("\"email\":\"@example.org\""), "invalid-email"},
      {SIGNUP("\"email\":\"a@b@example.org\""), "invalid-email"},
      {SIGNUP("\"email\":\"a@org\""), "invalid-email"},
      {SIGNUP("\"email\":\"a@.org\""), "invalid-email"},
      {SIGNUP("\"email\":\"a@example.\""), "invalid-email"},
      {SIGNUP("\"name\":[]"), "invalid-name"},
      {SIGNUP("\"name\":\" \\t\",\"plan\":1"), "invalid-name"},
      {SIGNUP("\"plan\":null"), "invalid-plan"},
      {SIGNUP("\"plan\":\"Free\",\"reminder\":\"x\""), "invalid-plan"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bool as_expected = rejected(gm_fake_run(cases[i].body), cases[i].code);
    CHECK(as_expected);
    if (!as_expected) fprintf(stderr, "  with %s\n", cases[i].body);
  }
}

static void deep_nesting_is_rejected(void) {
  enum { DEPTH = 100000 };
  char *body = gm_alloc(DEPTH);
  memset(body, '[', DEPTH);
  CHECK(rejected(gm_fake_run_text((gm_text){body, DEPTH}), "bad-payload"));
}

static void a_state_is_there_for_the_next_job_of_the_key(void) {
  gm_optional_text state;
  CHECK(gm_state(&state).error == GM_NO_KEY);
  CHECK(gm_state_failure(gm_set_state(gm_some(GM("1")))).failure.rejected);
  gm_fake.key = gm_some(GM("k"));
  CHECK(gm_state(&state).error == GM_OK && !state.some);
  CHECK(gm_set_state(gm_some(GM("1"))).error == GM_OK);
  CHECK(gm_state(&state).error == GM_OK && state.some && gm_equal(state.value, GM("1")));
  gm_fake.state_limit = 1;
  CHECK(gm_set_state(gm_some(GM("12"))).error == GM_TOO_LARGE);
  CHECK(gm_set_state((gm_optional_text){0}).error == GM_OK && !gm_fake.state.some);
}

static void a_follow_up_waits_for_the_job_that_runs_and_is_a_batch_of_others(void) {
  gm_new_job report = gm_job_to(GM("report")), row = gm_job_to(GM("row"));
  report.links = (gm_links){.after = GM_TEXTS(GM("first"), GM("second")), .after_failed = GM_RUN};
  gm_answer batch = gm_enqueue(&report);
  CHECK(batch.error == GM_OK && is(batch.text, "01K10000000000000000000001"));
  row.links.batch = gm_some(batch.text);
  CHECK(is(gm_enqueue(&row).text, "01K10000000000000000000002"));
  gm_links links = gm_fake.enqueued[0].links;
  CHECK(links.after.size == 2 && is(links.after.data[1], "second") && links.after_failed == GM_RUN && !links.open);
  links = gm_fake.enqueued[1].links;
  CHECK(links.after.size == 0 && gm_equal(links.batch.value, batch.text));
}

static void a_request_is_answered(void) {
  gm_fake.response = (gm_response){.status = 200, .body = GM("fine"), .headers = {(gm_pair[]){{GM("x-kept"), GM("1")}}, 1}};
  gm_request request = gm_request_to(GM("GET"), GM("https://api.example.org"));
  gm_response answer = gm_send(&request);
  CHECK(answer.error == GM_HTTP_OK && answer.status == 200 && gm_equal(answer.body, GM("fine")));
  CHECK(gm_equal(gm_header(&answer, GM("x-kept")).value, GM("1")) && !gm_header(&answer, GM("x")).some);
  CHECK(gm_fake.request_count == 1 && gm_equal(gm_fake.requests[0].url, request.url));
}

static void a_request_that_is_not_granted_is_rejected(void) {
  gm_request request = gm_request_to(GM("GET"), GM("https://api.example.org"));
  gm_response answer = gm_send(&request);
  CHECK(answer.error == GM_HTTP_DENIED && rejected(gm_http_failed(&answer), "http-denied"));
}

static void requests_are_answered_one_after_the_other(void) {
  gm_response first_two[] = {{.status = 503}, {.error = GM_HTTP_TIMEOUT}};
  gm_fake.responses = first_two;
  gm_fake.response_count = 2;
  gm_request request = gm_request_to(GM("GET"), GM("https://api.example.org"));
  CHECK(gm_send(&request).status == 503);
  gm_response late = gm_send(&request);
  gm_ending ending = gm_http_failed(&late);
  CHECK(late.error == GM_HTTP_TIMEOUT && !ending.failure.rejected && is(ending.failure.detail.code, "http-timeout"));
  CHECK(gm_send(&request).error == GM_HTTP_DENIED && gm_fake.request_count == 3);
}

static void refusals_are_retried_if_that_may_help(void) {
  gm_new_job job = gm_job_to(GM("report"));
  static const struct {
    gm_error_kind error;
    bool rejected;
  } enqueued[] = {{GM_TOO_LARGE, true}, {GM_TOO_MANY, true}, {GM_UNKNOWN_TOPIC, false}, {GM_INVALID_LINKS, true}};
  for (size_t i = 0; i < sizeof enqueued / sizeof *enqueued; i++) {
    gm_fake.enqueue_error = enqueued[i].error;
    gm_answer answer = gm_enqueue(&job);
    CHECK(answer.error == enqueued[i].error && gm_enqueue_failure(answer).failure.rejected == enqueued[i].rejected);
  }
  gm_fake.checkpoint_error = GM_TOO_LARGE;
  CHECK(gm_checkpoint_failure(gm_checkpoint(GM("x"))).failure.rejected);
  gm_fake.checkpoint_error = GM_UNAVAILABLE;
  CHECK(!gm_checkpoint_failure(gm_checkpoint(GM("x"))).failure.rejected && !gm_fake.checkpoint.some);
}

int main(void) {
  void (*const tests[])(void) = {
      a_signup_is_greeted,
      text_stays_as_it_is,
      a_reminder_is_asked_for,
      a_reminder_asks_for_none,
      a_reminder_that_is_refused_is_rejected,
      the_log_keeps_the_address_out,
      a_greylisted_domain_is_taken_at_the_second_try,
      a_bad_signup_is_rejected,
      deep_nesting_is_rejected,
      a_state_is_there_for_the_next_job_of_the_key,
      a_follow_up_waits_for_the_job_that_runs_and_is_a_batch_of_others,
      a_request_is_answered,
      a_request_that_is_not_granted_is_rejected,
      requests_are_answered_one_after_the_other,
      refusals_are_retried_if_that_may_help,
  };
  size_t count = sizeof tests / sizeof *tests;
  for (size_t i = 0; i < count; i++) {
    gm_fake = (gm_fake_host){0};
    tests[i]();
    gm_free_all();
  }
  printf("%zu tests, %d failures\n", count, failures);
  return failures != 0;
}
