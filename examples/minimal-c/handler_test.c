#include "gristmill_fake.h"

#include <stdio.h>

int main(void) {
  gm_ending ending = gm_fake_run("{\"name\": \"Ada\"}");
  bool greets = !ending.failed && gm_equal(ending.outcome.result.payload.data, GM("{\"hello\":\"Ada\"}"));
  puts(greets ? "it greets" : "it does not greet");
  gm_free_all();
  return !greets;
}
