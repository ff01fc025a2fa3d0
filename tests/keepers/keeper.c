#include <assert.h>

#include "gristmill.h"

static int deep(const volatile int *before) {
  volatile int here = *before + 1;
  return here < 0 ? 0 : deep(&here) + here;
}

gm_ending gm_handle(const gm_job *job) {
  static const char large[2000];
  const int none = 0;
  if (gm_equal(job->body.data, GM("progress"))) {
    gm_progress(5000, gm_some(GM("half")));
    return gm_complete();
  }
  assert(!gm_equal(job->body.data, GM("crash")) || !"on purpose");
  if (gm_equal(job->body.data, GM("deep")) && deep(&none) == 1) return gm_complete();
  while (gm_equal(job->body.data, GM("hoard"))) *(volatile char *)gm_alloc(1 << 20) = 1;
  if (gm_equal(job->body.data, GM("large"))) return gm_checkpoint_failure(gm_checkpoint((gm_text){large, sizeof large}));
  gm_optional_text state;
  gm_answer answer = gm_state(&state);
  if (answer.error != GM_OK) return gm_state_failure(answer);
  static char seen;
  seen = state.some ? (char)(state.value.data[0] + 1) : '1';
  answer = gm_set_state(gm_some((gm_text){&seen, 1}));
  if (answer.error != GM_OK) return gm_state_failure(answer);
  if (gm_equal(job->body.data, GM("fail")) && job->attempt == 1) return gm_retry(GM("later"), GM("after the state was set"));
  return gm_complete_with((gm_payload){.data = {&seen, 1}});
}
