/* Sends the request that its body names, such as `GET http://…`; the result is what came back. */
#include <stdio.h>
#include <string.h>

#include "gristmill.h"

gm_ending gm_handle(const gm_job *job) {
  gm_text body = job->body.data;
  const char *space = memchr(body.data, ' ', body.size);
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
