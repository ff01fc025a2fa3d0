/*
 * The contract of wit/job.wit by hand: the component model's canonical ABI. A record of more than 16 plain values, and
 * every answer that is more than one, goes by its address; the structs of gristmill.h are laid out as the ABI wants.
 */
#include "gristmill.h"

#include <stdlib.h>
#include <string.h>

/* ---- The host ---- */

#ifdef __wasm__
#define IMPORT(interface, name) \
  __attribute__((import_module("gristmill:job/" interface "@0.1.0"), import_name(name))) extern
#define EXPORT(name) __attribute__((export_name(name)))
#else /* a test brings functions of these names */
#define IMPORT(interface, name) extern
#define EXPORT(name)
#endif

/* result<string, linked-error> */
typedef struct {
  bool failed;
  _Alignas(8) union {
    gm_text id;
    uint8_t error;
  };
  _Alignas(8) union {
    uint64_t limit;
    gm_text problem;
  };
} enqueued;

/* result<_, checkpoint-error> */
typedef struct {
  bool failed;
  _Alignas(8) bool unavailable;
  _Alignas(8) union {
    uint64_t limit;
    gm_text reason;
  };
} checkpointed;

/* result<option<list<u8>>, state-error>, or result<_, state-error> */
typedef struct {
  bool failed;
  _Alignas(8) union {
    gm_optional_text state;
    struct {
      uint8_t kind; /* no-key, too-large, unavailable */
      _Alignas(8) union {
        uint64_t limit;
        gm_text reason;
      };
    } error;
  };
} state_answer;

/* result<response, http-error> */
typedef struct {
  bool failed;
  _Alignas(8) union {
    struct {
      uint16_t status;
      gm_pairs headers;
      gm_text body, url;
    } response;
    struct {
      uint8_t kind;
      _Alignas(8) union {
        gm_text text;
        uint64_t number;
      };
    } error;
  };
} answered;

IMPORT("context", "now") uint64_t gm_host_now(void);
IMPORT("context", "fuel-remaining") uint64_t gm_host_fuel_remaining(void);
IMPORT("context", "is-cancelled") bool gm_host_is_cancelled(void);
IMPORT("context", "checkpoint") void gm_host_checkpoint(const char *state, size_t size, void *answer);
IMPORT("context", "progress")
void gm_host_progress(uint32_t basis_points, uint32_t some, const char *note, size_t note_size);
IMPORT("queue", "enqueue-linked") void gm_host_enqueue(const gm_new_job *job, void *answer);
IMPORT("state", "get") void gm_host_state(void *answer);
IMPORT("state", "set") void gm_host_set_state(uint32_t some, const char *state, size_t size, void *answer);
IMPORT("http", "send")
void gm_host_send(const char *method, size_t method_size, const char *url, size_t url_size, const gm_pair *headers,
                  size_t header_count, uint32_t has_body, const char *body, size_t body_size, uint32_t has_timeout,
                  uint64_t timeout, uint32_t redirects, void *answer);
IMPORT("log", "emit")
void gm_host_log(uint32_t level, const char *message, size_t size, const gm_pair *fields, size_t count);
IMPORT("log", "enabled") bool gm_host_log_enabled(uint32_t level);
IMPORT("config", "get") void gm_host_config(const char *name, size_t size, gm_optional_text *answer);
IMPORT("config", "secret") void gm_host_secret(const char *name, size_t size, gm_optional_text *answer);

#ifdef __wasm__
_Static_assert(sizeof(gm_job) == 112 && offsetof(gm_job, attempt) == 64 && offsetof(gm_job, checkpoint) == 96, "job");
_Static_assert(offsetof(gm_new_job, links) == 96 && offsetof(gm_new_job, priority) == 76, "new-job");
_Static_assert(sizeof(gm_links) == 28 && offsetof(gm_links, batch) == 12 && offsetof(gm_links, open) == 24, "links");
_Static_assert(sizeof(gm_ending) == 72 && offsetof(gm_ending, failure.detail.after) == 56, "result<outcome, failure>");
_Static_assert(offsetof(gm_ending, outcome.result.payload) == 20 && offsetof(gm_ending, outcome.snooze) == 16, "outcome");
_Static_assert(sizeof(enqueued) == 24 && sizeof(checkpointed) == 24 && sizeof(state_answer) == 24, "answers");
_Static_assert(sizeof(answered) == 40 && offsetof(answered, response.url) == 28 && offsetof(answered, error.text) == 16, "answer");
#endif

/* ---- Memory: blocks that are freed together ---- */

typedef struct block {
  struct block *next;
  size_t used, size;
  _Alignas(16) char data[];
} block;

static block *blocks;

static block *add_block(size_t size) {
  block *b = size <= SIZE_MAX - sizeof(block) ? malloc(sizeof(block) + size) : NULL;
  if (b == NULL) __builtin_trap();
  *b = (block){.next = blocks, .size = size};
  return blocks = b;
}

void *gm_alloc(size_t size) {
  enum { SMALL = 4096 };
  size_t padding = -size & 15; /* to the next multiple of 16, the alignment of all there is */
  if (size > SIZE_MAX - padding) __builtin_trap();
  size += padding;
  block *b = blocks;
  if (b == NULL || b->size - b->used < size) b = add_block(size < SMALL ? SMALL : size);
  void *p = b->data + b->used;
  b->used += size;
  return p;
}

/* Public for the sake of tests. */
void gm_free_all(void) {
  while (blocks != NULL) {
    block *next = blocks->next;
    free(blocks);
    blocks = next;
  }
}

/* Where the host puts what it hands over. */
EXPORT("cabi_realloc") void *gm_realloc(void *old, size_t old_size, size_t align, size_t size) {
  (void)align;
  void *p = gm_alloc(size);
  if (old_size > 0) memcpy(p, old, old_size < size ? old_size : size);
  return p;
}

/* ---- The attempt ---- */

EXPORT("gristmill:job/handler@0.1.0#handle") const gm_ending *gm_export_handle(const gm_job *job) {
  gm_ending *ending = gm_alloc(sizeof *ending);
  *ending = gm_handle(job);
  return ending;
}

/* Called once the host has read the ending. */
EXPORT("cabi_post_gristmill:job/handler@0.1.0#handle") void gm_export_post_handle(const gm_ending *ending) {
  (void)ending;
  gm_free_all();
}

gm_ending gm_complete(void) { return (gm_ending){0}; }

gm_ending gm_complete_with(gm_payload result) {
  return (gm_ending){.outcome.result = {.some = true, .payload = result}};
}

gm_ending gm_complete_json(gm_text json) { return gm_complete_with(gm_json(json)); }

gm_ending gm_snooze(uint64_t wait_ms) { return (gm_ending){.outcome = {.snoozed = true, .snooze = wait_ms}}; }

gm_ending gm_retry(gm_text code, gm_text message) {
  return (gm_ending){.failed = true, .failure.detail = {.code = code, .message = message}};
}

gm_ending gm_retry_after(uint64_t wait_ms, gm_text code, gm_text message) {
  gm_ending ending = gm_retry(code, message);
  ending.failure.detail.after = gm_some_u64(wait_ms);
  return ending;
}

gm_ending gm_reject(gm_text code, gm_text message) {
  gm_ending ending = gm_retry(code, message);
  ending.failure.rejected = true;
  return ending;
}

gm_ending gm_with_context(gm_ending failure, gm_payload context) {
  failure.failure.detail.context.some = true;
  failure.failure.detail.context.payload = context;
  return failure;
}

/* ---- What a handler may ask for ---- */

static gm_optional_text find(gm_pairs pairs, gm_text name) {
  for (size_t i = 0; i < pairs.size; i++)
    if (gm_equal(pairs.data[i].name, name)) return gm_some(pairs.data[i].value);
  return (gm_optional_text){0};
}

void gm_log(gm_level level, gm_text message, gm_pairs fields) {
  gm_host_log(level, message.data, message.size, fields.data, fields.size);
}

bool gm_log_enabled(gm_level level) { return gm_host_log_enabled(level); }

gm_new_job gm_job_to(gm_text topic) { return (gm_new_job){.topic = topic, .priority = GM_NORMAL}; }

gm_answer gm_enqueue(const gm_new_job *job) {
  enqueued answer = {0};
  gm_host_enqueue(job, &answer);
  if (!answer.failed) return (gm_answer){GM_OK, answer.id};
  switch (answer.error) {
    case 0: return (gm_answer){GM_DENIED, GM("the manifest does not let this topic enqueue to that one")};
    case 1: return (gm_answer){GM_TOO_LARGE, GM("the body is larger than that topic accepts")};
    case 2: return (gm_answer){GM_TOO_MANY, GM("one attempt may not enqueue so many jobs")};
    case 3:
      return (gm_answer){GM_UNKNOWN_TOPIC, gm_join(GM("there is no topic `"), job->topic,
                                                   GM("` to enqueue to; name it under `topics` in the manifest"))};
    default: return (gm_answer){GM_INVALID_LINKS, gm_join(GM("the job has invalid links: "), answer.problem)};
  }
}

gm_ending gm_enqueue_failure(gm_answer refusal) {
  gm_text code = GM("enqueue-failed");
  return refusal.error == GM_UNKNOWN_TOPIC ? gm_retry(code, refusal.text) : gm_reject(code, refusal.text);
}

gm_request gm_request_to(gm_text method, gm_text url) { return (gm_request){.method = method, .url = url}; }

static gm_text number_text(uint64_t number) {
  char digits[20], *at = digits + sizeof digits;
  do *--at = (char)('0' + number % 10);
  while ((number /= 10) > 0);
  return gm_join((gm_text){at, (size_t)(digits + sizeof digits - at)});
}

gm_response gm_send(const gm_request *request) {
  answered answer = {0};
  gm_host_send(request->method.data, request->method.size, request->url.data, request->url.size, request->headers.data,
               request->headers.size, request->body.some, request->body.value.data, request->body.value.size,
               request->timeout_ms.some, request->timeout_ms.value, request->redirects, &answer);
  if (!answer.failed) {
    return (gm_response){.status = answer.response.status,
                         .headers = answer.response.headers,
                         .body = answer.response.body,
                         .url = answer.response.url};
  }
  gm_response none = {.error = (gm_http_error)(answer.error.kind + 1)};
  switch (none.error) {
    case GM_HTTP_DENIED: none.why = gm_join(GM("the request is not granted: "), answer.error.text); break;
    case GM_HTTP_INVALID: none.why = gm_join(GM("the request cannot be sent: "), answer.error.text); break;
    case GM_HTTP_TIMEOUT: none.why = GM("no answer in time"); break;
    case GM_HTTP_TOO_LARGE:
      none.why = gm_join(GM("the request or its answer is larger than "), number_text(answer.error.number), GM(" bytes"));
      break;
    case GM_HTTP_TOO_MANY:
      none.why = gm_join(GM("one attempt may send no more than "), number_text((uint32_t)answer.error.number), GM(" requests"));
      break;
    default: none.why = gm_join(GM("nothing answers: "), answer.error.text);
  }
  return none;
}

gm_optional_text gm_header(const gm_response *response, gm_text name) { return find(response->headers, name); }

gm_ending gm_http_failed(const gm_response *response) {
  switch (response->error) {
    case GM_HTTP_DENIED: return gm_reject(GM("http-denied"), response->why);
    case GM_HTTP_INVALID: return gm_reject(GM("http-invalid"), response->why);
    case GM_HTTP_TIMEOUT: return gm_retry(GM("http-timeout"), response->why);
    case GM_HTTP_TOO_LARGE: return gm_reject(GM("http-too-large"), response->why);
    case GM_HTTP_TOO_MANY: return gm_reject(GM("http-too-many"), response->why);
    default: return gm_retry(GM("http-unreachable"), response->why);
  }
}

uint64_t gm_now(void) { return gm_host_now(); }

uint64_t gm_fuel_remaining(void) { return gm_host_fuel_remaining(); }

bool gm_cancelled(void) { return gm_host_is_cancelled(); }

gm_answer gm_checkpoint(gm_text state) {
  checkpointed answer = {0};
  gm_host_checkpoint(state.data, state.size, &answer);
  if (!answer.failed) return (gm_answer){0};
  if (answer.unavailable) return (gm_answer){GM_UNAVAILABLE, answer.reason};
  return (gm_answer){GM_TOO_LARGE, GM("the state is larger than the topic allows")};
}

gm_ending gm_checkpoint_failure(gm_answer refusal) {
  gm_text code = GM("checkpoint-failed");
  return refusal.error == GM_UNAVAILABLE ? gm_retry(code, refusal.text) : gm_reject(code, refusal.text);
}

static gm_answer state_refusal(const state_answer *answer) {
  if (!answer->failed) return (gm_answer){0};
  switch (answer->error.kind) {
    case 0: return (gm_answer){GM_NO_KEY, GM("the job has no key, so it has no state: push it with one")};
    case 1: return (gm_answer){GM_TOO_LARGE, GM("the state is larger than the topic allows")};
    default: return (gm_answer){GM_UNAVAILABLE, gm_join(GM("the state cannot be read now: "), answer->error.reason)};
  }
}

gm_answer gm_state(gm_optional_text *state) {
  state_answer answer = {0};
  gm_host_state(&answer);
  *state = answer.failed ? (gm_optional_text){0} : answer.state;
  return state_refusal(&answer);
}

gm_answer gm_set_state(gm_optional_text state) {
  state_answer answer = {0};
  gm_host_set_state(state.some, state.value.data, state.value.size, &answer);
  return state_refusal(&answer);
}

gm_ending gm_state_failure(gm_answer refusal) {
  if (refusal.error == GM_NO_KEY) return gm_reject(GM("no-key"), refusal.text);
  if (refusal.error == GM_TOO_LARGE) return gm_reject(GM("state-too-large"), refusal.text);
  return gm_retry(GM("state-unavailable"), refusal.text);
}

void gm_progress(uint32_t basis_points, gm_optional_text note) {
  gm_host_progress(basis_points, note.some, note.value.data, note.value.size);
}

gm_optional_text gm_config(gm_text name) {
  gm_optional_text answer = {0};
  gm_host_config(name.data, name.size, &answer);
  return answer;
}

gm_optional_text gm_secret(gm_text name) {
  gm_optional_text answer = {0};
  gm_host_secret(name.data, name.size, &answer);
  return answer;
}

/* ---- Small things ---- */

gm_optional_text gm_meta(const gm_job *job, gm_text name) { return find(job->metadata, name); }

gm_payload gm_json(gm_text json) { return (gm_payload){json, gm_some(GM("application/json"))}; }

gm_optional_text gm_some(gm_text value) { return (gm_optional_text){true, value}; }

gm_optional_u64 gm_some_u64(uint64_t value) { return (gm_optional_u64){true, value}; }

bool gm_equal(gm_text a, gm_text b) { return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0); }

gm_text gm_join_all(const gm_text *texts, size_t count) {
  size_t size = 0;
  for (size_t i = 0; i < count; i++) size += texts[i].size;
  char *data = gm_alloc(size), *at = data;
  for (size_t i = 0; i < count; i++) {
    if (texts[i].size > 0) memcpy(at, texts[i].data, texts[i].size);
    at += texts[i].size;
  }
  return (gm_text){data, size};
}
