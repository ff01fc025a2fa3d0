/*
 * What a handler of Gristmill, the job runner, is written with.
 *
 * A handler is one function, gm_handle. It gets a job and says how the attempt ended:
 *
 *     gm_ending gm_handle(const gm_job *job) {
 *       gm_info("order", {GM("id"), job->id});
 *       return gm_complete_json(GM("{\"paid\":true}"));
 *     }
 *
 * All memory that these functions return, and all of gm_alloc, is freed together when the attempt is over: free nothing
 * yourself. If there is no memory left, the attempt traps and the runner calls it `memory-exceeded`.
 *
 * The structs have the layout that the contract (wit/job.wit) gives them in memory, so that nothing is copied.
 */
#ifndef GRISTMILL_H
#define GRISTMILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* UTF-8 text, or bytes. It may hold zeros and does not end in one. */
typedef struct {
  const char *data;
  size_t size;
} gm_text;

/* The text of a string literal. */
#define GM(literal) ((gm_text){"" literal, sizeof(literal) - 1})

/* A text that may be missing. */
typedef struct {
  bool some;
  gm_text value;
} gm_optional_text;

typedef struct {
  bool some;
  uint64_t value;
} gm_optional_u64;

typedef struct {
  gm_text name, value;
} gm_pair;

typedef struct {
  const gm_pair *data;
  size_t size;
} gm_pairs;

/* Bytes and the format they are in: a media type such as `application/json`; none means opaque octets. */
typedef struct {
  gm_text data;
  gm_optional_text content_type;
} gm_payload;

/* All that a handler may observe about its input. Times are milliseconds since 1970 by the store's clock. */
typedef struct {
  gm_text id; /* a ULID, 26 characters; the same on every attempt */
  gm_text tenant;
  gm_text topic;
  gm_payload body;
  gm_pairs metadata; /* in order; names may repeat */
  gm_optional_text key; /* jobs of the topic with the same key run one at a time and in order */
  uint32_t attempt; /* 1 on the first delivery */
  uint32_t max_attempts;
  uint64_t enqueued_at;
  uint64_t due_at;
  uint64_t deadline;           /* the hard limit of this attempt */
  gm_optional_text checkpoint; /* what an earlier attempt saved with gm_checkpoint */
} gm_job;

/* How an attempt ended. Made by the functions below. */
typedef struct {
  bool failed;
  union {
    struct {
      bool snoozed;
      union {
        struct {
          bool some;
          gm_payload payload;
        } result;
        uint64_t snooze;
      };
    } outcome;
    struct {
      bool rejected;
      struct {
        gm_text code, message;
        struct {
          bool some;
          gm_payload payload;
        } context;
        gm_optional_u64 after;
      } detail;
    } failure;
  };
} gm_ending;

/* The handler: yours to write. */
gm_ending gm_handle(const gm_job *job);

/* Done, without a result or with one. */
gm_ending gm_complete(void);
gm_ending gm_complete_with(gm_payload result);
gm_ending gm_complete_json(gm_text json);
/* Neither finished nor failed: run this job again after so many milliseconds. The attempt does not count. */
gm_ending gm_snooze(uint64_t wait_ms);
/* Failed, and another try may help: after the topic's backoff, or after so many milliseconds. `code` is stable and for
 * machines, `message` for people. */
gm_ending gm_retry(gm_text code, gm_text message);
gm_ending gm_retry_after(uint64_t wait_ms, gm_text code, gm_text message);
/* Failed, and another try would end the same: to the dead letters at once. */
gm_ending gm_reject(gm_text code, gm_text message);
/* The same failure with something worth keeping, such as an upstream's answer. */
gm_ending gm_with_context(gm_ending failure, gm_payload context);

typedef enum { GM_TRACE, GM_DEBUG, GM_INFO, GM_WARN, GM_ERROR } gm_level;

/* Writes a line to the job's log. The runner adds tenant, topic, job and attempt. */
void gm_log(gm_level level, gm_text message, gm_pairs fields);
/* Whether anybody keeps lines of this level. */
bool gm_log_enabled(gm_level level);

/* gm_info("resized", {GM("width"), width}, {GM("format"), GM("png")}) */
#define gm_debug(message, ...) gm_log(GM_DEBUG, GM(message), GM_PAIRS(__VA_ARGS__))
#define gm_info(message, ...) gm_log(GM_INFO, GM(message), GM_PAIRS(__VA_ARGS__))
#define gm_warn(message, ...) gm_log(GM_WARN, GM(message), GM_PAIRS(__VA_ARGS__))
#define gm_error(message, ...) gm_log(GM_ERROR, GM(message), GM_PAIRS(__VA_ARGS__))
#define GM_PAIRS(...) ((gm_pairs){(gm_pair[]){__VA_ARGS__}, sizeof((gm_pair[]){__VA_ARGS__}) / sizeof(gm_pair)})

/* Which of a topic's ready jobs come first. Low ones wait longer, but not for ever. */
typedef enum { GM_HIGH, GM_NORMAL, GM_LOW } gm_priority;

typedef struct {
  const gm_text *data;
  size_t size;
} gm_texts;

/* job.links.after = GM_TEXTS(first, second) */
#define GM_TEXTS(...) ((gm_texts){(gm_text[]){__VA_ARGS__}, sizeof((gm_text[]){__VA_ARGS__}) / sizeof(gm_text)})

/* What becomes of a job if one that it waited for was not done: it is dead, too, or it runs. */
typedef enum { GM_DEAD, GM_RUN } gm_after_failed;

/* Which jobs a follow-up waits for, and which one waits for it, by their ids: of the job that runs, of what gm_enqueue answered
 * before, or of any other job. */
typedef struct {
  gm_texts after;       /* these have to end first */
  uint8_t after_failed; /* a gm_after_failed */
  gm_optional_text batch; /* a job that waits, and waits for this one, too */
  bool open; /* it waits until `gristmill job seal` or the HTTP API seals it, and all jobs that have it as their batch have ended */
} gm_links;

/* A follow-up job. Begin with gm_job_to. */
typedef struct {
  gm_text topic;
  gm_payload body;
  gm_pairs metadata;
  gm_optional_text key; /* jobs of the topic with the same key run one at a time and in order */
  gm_optional_u64 not_before; /* milliseconds since 1970; at once if none */
  gm_optional_text unique;    /* one job per topic and value: until it is done, or for the window */
  uint8_t priority;           /* a gm_priority */
  gm_optional_u64 unique_window;
  gm_links links;
} gm_new_job;

typedef enum {
  GM_OK,
  GM_DENIED,
  GM_TOO_LARGE,
  GM_TOO_MANY,
  GM_UNKNOWN_TOPIC,
  GM_UNAVAILABLE,
  GM_NO_KEY,
  GM_INVALID_LINKS
} gm_error_kind;

/* What the runner answered: the new job's id, or why it refused, in words. */
typedef struct {
  gm_error_kind error;
  gm_text text;
} gm_answer;

/* A job of normal priority with an empty body, due at once. */
gm_new_job gm_job_to(gm_text topic);
/* Hands a follow-up job to the runner. Nothing is visible to anyone until gm_handle returns, and then only if it did not
 * fail. A refused job leaves the others as they are. */
gm_answer gm_enqueue(const gm_new_job *job);
/* The failure for a job that was refused: another try helps only if there is no such topic yet. */
gm_ending gm_enqueue_failure(gm_answer refusal);

/* A request over HTTP, to a host that the manifest grants this topic. Begin with gm_request_to. */
typedef struct {
  gm_text method;
  gm_text url; /* absolute, without user, password and fragment */
  gm_pairs headers; /* names may repeat; `host`, `content-length`, `connection` and their like are the runner's to set */
  gm_optional_text body;
  gm_optional_u64 timeout_ms; /* for all of it, redirects included; none, or more than is granted: what is granted */
  uint32_t redirects; /* to follow, 20 at most; otherwise a redirect is an answer like any other */
} gm_request;

typedef enum {
  GM_HTTP_OK,
  GM_HTTP_DENIED,
  GM_HTTP_INVALID,
  GM_HTTP_TIMEOUT,
  GM_HTTP_TOO_LARGE,
  GM_HTTP_TOO_MANY,
  GM_HTTP_UNREACHABLE
} gm_http_error;

/* A whole answer, whatever its status; or why there is none. */
typedef struct {
  gm_http_error error;
  gm_text why; /* of an error, for people */
  uint16_t status;
  gm_pairs headers; /* names in lower case, in order; they may repeat */
  gm_text body;
  gm_text url; /* where the answer came from */
} gm_response;

gm_request gm_request_to(gm_text method, gm_text url);
/* Sends a request and waits for the whole answer. A component that calls this imports gristmill:job/http, and runs only
 * in topics that grant requests. */
gm_response gm_send(const gm_request *request);
/* The first value of this header, by its name in lower case. */
gm_optional_text gm_header(const gm_response *response, gm_text name);
/* How to end an attempt that got no answer: a reject if another try would end the same, else a retry. */
gm_ending gm_http_failed(const gm_response *response);

/* The store's clock, in milliseconds since 1970. */
uint64_t gm_now(void);
/* What this attempt may still spend; about one unit an instruction. */
uint64_t gm_fuel_remaining(void);
/* Whether the job was cancelled or the runner is ending. Who never asks is stopped at the deadline. */
bool gm_cancelled(void);
/* Saves a state durably: the next attempt finds it in the job's `checkpoint`. */
gm_answer gm_checkpoint(gm_text state);
/* The failure for a checkpoint that was refused: another try helps only if the store could not take it. */
gm_ending gm_checkpoint_failure(gm_answer refusal);
/* What earlier jobs of this job's key left; none if there is nothing. After gm_set_state, what that said. Of the jobs of a key one runs
 * at a time. A component that uses it imports gristmill:job/state, and runs only in topics with state = true. */
gm_answer gm_state(gm_optional_text *state);
/* Has the state be this once the job has completed, or not at all; none deletes it. The last call counts. */
gm_answer gm_set_state(gm_optional_text state);
/* The failure for what these two refused: another try helps only if the store did not answer. */
gm_ending gm_state_failure(gm_answer refusal);
/* For people who watch: 0 to 10000 (basis points) and a short note. */
void gm_progress(uint32_t basis_points, gm_optional_text note);
/* A setting or a secret that the manifest grants this topic; none if it does not. */
gm_optional_text gm_config(gm_text name);
gm_optional_text gm_secret(gm_text name);

/* The first value of this name in the job's metadata. */
gm_optional_text gm_meta(const gm_job *job, gm_text name);

/* Memory until the attempt is over, aligned for anything. Never null. */
void *gm_alloc(size_t size);
/* A payload of `application/json`. */
gm_payload gm_json(gm_text json);
gm_optional_text gm_some(gm_text value);
gm_optional_u64 gm_some_u64(uint64_t value);
bool gm_equal(gm_text a, gm_text b);
/* One text after the other: gm_join(domain, GM(" is full")). */
#define gm_join(...) gm_join_all((gm_text[]){__VA_ARGS__}, sizeof((gm_text[]){__VA_ARGS__}) / sizeof(gm_text))
gm_text gm_join_all(const gm_text *texts, size_t count);

#endif
