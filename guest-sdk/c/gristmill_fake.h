/*
 * Stands for the runner in tests: include it once, instead of linking gristmill.c.
 *
 *     gm_fake = (gm_fake_host){.now = 1000};
 *     gm_ending ending = gm_fake_run("{\"email\": ...}");
 *     ... gm_fake.enqueued[0] ...
 *     gm_free_all();
 */
#include "gristmill.c"

enum { GM_FAKE_MAX = 16 };

typedef struct {
  gm_level level;
  gm_text message;
  gm_pairs fields;
} gm_fake_line;

/* The first fields are for a test to set before a run, the others for it to read. */
typedef struct {
  uint64_t now;
  bool cancelled;
  gm_error_kind enqueue_error;    /* how enqueueing is refused, such as GM_DENIED; GM_OK if it is not */
  gm_error_kind checkpoint_error; /* likewise, GM_TOO_LARGE or GM_UNAVAILABLE */
  uint32_t attempt; /* of the job; 0 is taken for 1 */
  gm_pairs config, secrets;
  gm_optional_text job_checkpoint;
  gm_optional_text key;   /* of the job */
  gm_optional_text state; /* of that key: before a run, and after it what a completed attempt left */
  size_t state_limit;     /* in bytes; 0 is taken for 64 KiB */
  const gm_response *responses; /* to the first requests, one after the other */
  size_t response_count;
  gm_response response; /* to all others. One with an `error` is that; with neither that nor a status, none is granted */

  gm_request requests[GM_FAKE_MAX];
  size_t request_count;
  size_t answered_count;
  gm_new_job enqueued[GM_FAKE_MAX];
  size_t enqueued_count;
  gm_fake_line lines[GM_FAKE_MAX];
  size_t line_count;
  gm_optional_text checkpoint;
  uint32_t progress;
} gm_fake_host;

static gm_fake_host gm_fake;

/* One attempt at a job with this body, at the topic `test`. */
static gm_ending gm_fake_run_text(gm_text body) {
  gm_job job = {
      .id = GM("01K00000000000000000000000"),
      .tenant = GM("default"),
      .topic = GM("test"),
      .body = {.data = body},
      .key = gm_fake.key,
      .attempt = gm_fake.attempt != 0 ? gm_fake.attempt : 1,
      .max_attempts = 5,
      .enqueued_at = gm_fake.now,
      .due_at = gm_fake.now,
      .deadline = gm_fake.now + 30000,
      .checkpoint = gm_fake.job_checkpoint,
  };
  gm_optional_text before = gm_fake.state;
  gm_ending ending = gm_handle(&job);
  if (ending.failed || ending.outcome.snoozed) gm_fake.state = before;
  return ending;
}

static inline gm_ending gm_fake_run(const char *body) { return gm_fake_run_text((gm_text){body, strlen(body)}); }

static gm_text gm_fake_copy(gm_text text) { return gm_join(text); }

static gm_pairs gm_fake_copy_pairs(gm_pairs pairs) {
  gm_pair *copy = gm_alloc(pairs.size * sizeof *copy);
  for (size_t i = 0; i < pairs.size; i++)
    copy[i] = (gm_pair){gm_fake_copy(pairs.data[i].name), gm_fake_copy(pairs.data[i].value)};
  return (gm_pairs){copy, pairs.size};
}

/* ---- What the runner does ---- */

uint64_t gm_host_now(void) { return gm_fake.now; }

uint64_t gm_host_fuel_remaining(void) { return 1000000000000; }

bool gm_host_is_cancelled(void) { return gm_fake.cancelled; }

void gm_host_checkpoint(const char *state, size_t size, void *answer) {
  if (gm_fake.checkpoint_error != GM_OK) {
    checkpointed *refused = answer;
    refused->failed = true;
    refused->unavailable = gm_fake.checkpoint_error == GM_UNAVAILABLE;
    if (refused->unavailable) refused->reason = GM("the fake was told to refuse");
    return;
  }
  gm_fake.checkpoint = gm_some(gm_fake_copy((gm_text){state, size}));
}

void gm_host_progress(uint32_t basis_points, uint32_t some, const char *note, size_t note_size) {
  (void)some, (void)note, (void)note_size;
  gm_fake.progress = basis_points;
}

void gm_host_state(void *answer) {
  state_answer *state = answer;
  if (gm_fake.key.some) {
    state->state = gm_fake.state;
  } else {
    state->failed = true;
    state->error.kind = 0;
  }
}

void gm_host_set_state(uint32_t some, const char *state, size_t size, void *answer) {
  size_t limit = gm_fake.state_limit != 0 ? gm_fake.state_limit : 65536;
  if (!gm_fake.key.some || size > limit) {
    ((state_answer *)answer)->failed = true;
    ((state_answer *)answer)->error.kind = gm_fake.key.some ? 1 : 0;
    return;
  }
  gm_fake.state = some ? gm_some(gm_fake_copy((gm_text){state, size})) : (gm_optional_text){0};
}

void gm_host_enqueue(const gm_new_job *job, void *answer) {
  gm_error_kind error = gm_fake.enqueued_count == GM_FAKE_MAX ? GM_TOO_MANY : gm_fake.enqueue_error;
  if (error != GM_OK) {
    *(enqueued *)answer = (enqueued){.failed = true, .problem = GM("the fake was told to refuse")};
    static const uint8_t numbers[] = {
        [GM_DENIED] = 0, [GM_TOO_LARGE] = 1, [GM_TOO_MANY] = 2, [GM_UNKNOWN_TOPIC] = 3, [GM_INVALID_LINKS] = 4};
    ((enqueued *)answer)->error = numbers[error];
    return;
  }
  gm_new_job copy = *job;
  copy.metadata = gm_fake_copy_pairs(job->metadata);
  gm_text *after = gm_alloc(job->links.after.size * sizeof *after);
  for (size_t i = 0; i < job->links.after.size; i++) after[i] = gm_fake_copy(job->links.after.data[i]);
  copy.links.after.data = after;
  copy.links.batch.value = gm_fake_copy(job->links.batch.value);
  gm_fake.enqueued[gm_fake.enqueued_count++] = copy;
  gm_text count = number_text(gm_fake.enqueued_count), zeros = {"0000000000000000000000", 22 - count.size};
  ((enqueued *)answer)->id = gm_join(GM("01K1"), zeros, count);
}

void gm_host_send(const char *method, size_t method_size, const char *url, size_t url_size, const gm_pair *headers,
                  size_t header_count, uint32_t has_body, const char *body, size_t body_size, uint32_t has_timeout,
                  uint64_t timeout, uint32_t redirects, void *answer) {
  if (gm_fake.request_count < GM_FAKE_MAX) {
    gm_fake.requests[gm_fake.request_count++] =
        (gm_request){gm_fake_copy((gm_text){method, method_size}), gm_fake_copy((gm_text){url, url_size}),
                     gm_fake_copy_pairs((gm_pairs){headers, header_count}),
                     has_body ? gm_some(gm_fake_copy((gm_text){body, body_size})) : (gm_optional_text){0},
                     {has_timeout, timeout}, redirects};
  }
  answered *said = answer;
  size_t at = gm_fake.answered_count++;
  const gm_response *response = at < gm_fake.response_count ? &gm_fake.responses[at] : &gm_fake.response;
  if (response->error != GM_HTTP_OK) {
    *said = (answered){.failed = true, .error = {.kind = (uint8_t)(response->error - 1), .text = response->why}};
  } else if (response->status == 0) {
    *said = (answered){.failed = true, .error = {.text = GM("the fake answers no requests")}};
  } else {
    *said = (answered){.response = {response->status, response->headers, response->body, response->url}};
  }
}

void gm_host_log(uint32_t level, const char *message, size_t size, const gm_pair *fields, size_t count) {
  if (gm_fake.line_count == GM_FAKE_MAX) return;
  gm_fake.lines[gm_fake.line_count++] =
      (gm_fake_line){(gm_level)level, gm_fake_copy((gm_text){message, size}), gm_fake_copy_pairs((gm_pairs){fields, count})};
}

bool gm_host_log_enabled(uint32_t level) {
  (void)level;
  return true;
}

void gm_host_config(const char *name, size_t size, gm_optional_text *answer) {
  *answer = find(gm_fake.config, (gm_text){name, size});
}

void gm_host_secret(const char *name, size_t size, gm_optional_text *answer) {
  *answer = find(gm_fake.secrets, (gm_text){name, size});
}
