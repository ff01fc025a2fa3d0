/* What the tests of all languages ask for, by the body: a batch of jobs, a request over HTTP, the state of a key and bad ends. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "gristmill.h"

static gm_answer enqueue(const gm_job *job, gm_text body, gm_links links) {
  gm_new_job new = gm_job_to(job->topic);
  new.body.data = body;
  new.links = links;
  return gm_enqueue(&new);
}

static gm_ending fan(const gm_job *job) {
  gm_links first = {.after = GM_TEXTS(job->id), .after_failed = GM_RUN, .open = true};
  gm_answer batch = enqueue(job, GM("gather"), first);
  if (batch.error != GM_OK) return gm_enqueue_failure(batch);
  gm_answer bad = enqueue(job, GM("bad"), (gm_links){.batch = gm_some(batch.text)});
  if (bad.error != GM_OK) return gm_enqueue_failure(bad);
  gm_answer good = enqueue(job, GM("good"), (gm_links){.after = GM_TEXTS(bad.text), .batch = gm_some(batch.text)});
  if (good.error != GM_OK) return gm_enqueue_failure(good);
  return gm_complete_with((gm_payload){.data = batch.text});
}

/* Sends the request that the body names, such as `GET http://…`; the result is what came back. */
static gm_ending request(gm_text body, const char *space) {
  gm_text method = {body.data, (size_t)(space - body.data)};
  gm_request request = gm_request_to(method, (gm_text){space + 1, body.size - method.size - 1});
  request.redirects = 1;
  if (gm_equal(method, GM("POST"))) {
    request.headers = GM_PAIRS({GM("x-kept"), GM("1")}, {GM("x-kept"), GM("2")});
    request.body = gm_some(GM("hello"));
    request.timeout_ms = gm_some_u64(20000);
  }
  if (gm_equal(method, GM("SLOW"))) {
    request.method = GM("GET");
    request.timeout_ms = gm_some_u64(50);
  }
  gm_response answer = gm_send(&request);
  if (answer.error) return gm_http_failed(&answer);
  char status[8];
  int size = snprintf(status, sizeof status, "%d ", answer.status);
  gm_text header = gm_header(&answer, GM("x-a")).value;
  gm_text said = gm_join((gm_text){status, (size_t)size}, header, GM(" "), answer.body);
  return gm_complete_with((gm_payload){.data = said});
}

static int deep(const volatile int *before) {
  volatile int here = *before + 1;
  return here < 0 ? 0 : deep(&here) + here;
}

/* Counts the jobs of a key in its state. */
static gm_ending count(const gm_job *job, gm_text body) {
  static const char large[2000];
  const int none = 0;
  if (gm_equal(body, GM("progress"))) {
    gm_progress(5000, gm_some(GM("half")));
    return gm_complete();
  }
  assert(!gm_equal(body, GM("crash")) || !"on purpose");
  if (gm_equal(body, GM("deep")) && deep(&none) == 1) return gm_complete();
  while (gm_equal(body, GM("hoard"))) *(volatile char *)gm_alloc(1 << 20) = 1;
  if (gm_equal(body, GM("large"))) return gm_checkpoint_failure(gm_checkpoint((gm_text){large, sizeof large}));
  gm_optional_text state;
  gm_answer answer = gm_state(&state);
  if (answer.error != GM_OK) return gm_state_failure(answer);
  static char seen;
  seen = state.some ? (char)(state.value.data[0] + 1) : '1';
  answer = gm_set_state(gm_some((gm_text){&seen, 1}));
  if (answer.error != GM_OK) return gm_state_failure(answer);
  if (gm_equal(body, GM("fail")) && job->attempt == 1) return gm_retry(GM("later"), GM("after the state was set"));
  return gm_complete_with((gm_payload){.data = {&seen, 1}});
}

gm_ending gm_handle(const gm_job *job) {
  gm_text body = job->body.data;
  const char *space = body.size > 0 ? memchr(body.data, ' ', body.size) : NULL;
  if (space != NULL) return request(body, space);
  if (gm_equal(body, GM("fan"))) return fan(job);
  if (gm_equal(body, GM("gather"))) return gm_complete_with((gm_payload){.data = gm_meta(job, GM("predecessors")).value});
  if (gm_equal(body, GM("wrong"))) return gm_enqueue_failure(enqueue(job, GM(""), (gm_links){.batch = gm_some(GM("no id!"))}));
  if (gm_equal(body, GM("bad")) || gm_equal(body, GM("good"))) return gm_reject(GM("bad"), GM("as requested"));
  return count(job, body);
}
