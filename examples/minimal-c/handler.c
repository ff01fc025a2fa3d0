#include "gristmill.h"
#include "json.h"

gm_ending gm_handle(const gm_job *job) {
  size_t wrong_at;
  gm_optional_text name = json_text(json_field(json_parse(job->body.data, &wrong_at), GM("name")));
  if (!name.some) return gm_reject(GM("bad-payload"), GM("the body is no JSON with a name"));
  gm_info("greet", {GM("name"), name.value});
  return gm_complete_json(json_object({GM("hello"), json_string(name.value)}));
}
