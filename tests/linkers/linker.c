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

gm_ending gm_handle(const gm_job *job) {
  if (gm_equal(job->body.data, GM("fan"))) return fan(job);
  if (gm_equal(job->body.data, GM("gather"))) {
    return gm_complete_with((gm_payload){.data = gm_meta(job, GM("predecessors")).value});
  }
  if (gm_equal(job->body.data, GM("wrong"))) {
    return gm_enqueue_failure(enqueue(job, GM(""), (gm_links){.batch = gm_some(GM("no id!"))}));
  }
  return gm_reject(GM("bad"), GM("as requested"));
}
