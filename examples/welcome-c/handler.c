/* The handler of signups: checks one, greets, and sees to a reminder three days later. */
#include "gristmill.h"
#include "json.h"

#include <string.h>

enum { GREYLIST_DELAY_MS = 30 * 1000, REMINDER_DELAY_MS = 3 * 24 * 3600 * 1000 };

/* What the body says, checked. */
typedef struct {
  gm_text email, domain, name, plan;
  bool reminder;
} signup;

/* The rules below must not depend on a language's idea of white space and lower case: it is JSON's, and ASCII's. */
static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

static gm_text trim(gm_text text) {
  while (text.size > 0 && is_space(text.data[0])) text = (gm_text){text.data + 1, text.size - 1};
  while (text.size > 0 && is_space(text.data[text.size - 1])) text.size--;
  return text;
}

static gm_text lower(gm_text text) {
  char *out = gm_alloc(text.size);
  for (size_t i = 0; i < text.size; i++) {
    char c = text.data[i];
    out[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
  }
  return (gm_text){out, text.size};
}

/* Trims, and makes one space of several. */
static gm_text single_spaced(gm_text text) {
  text = trim(text);
  char *out = gm_alloc(text.size);
  size_t size = 0;
  for (size_t i = 0; i < text.size; i++) {
    if (!is_space(text.data[i])) out[size++] = text.data[i];
    else if (!is_space(text.data[i - 1])) out[size++] = ' ';
  }
  return (gm_text){out, size};
}

/* What is behind the only @ of an address; empty if it is no address. */
static gm_text domain_of(gm_text email) {
  const char *end = email.data + email.size;
  const char *at = email.size > 0 ? memchr(email.data, '@', email.size) : NULL;
  if (at == NULL || at == email.data) return GM("");
  gm_text domain = {at + 1, (size_t)(end - at - 1)};
  bool dot_inside = domain.size > 2 && memchr(domain.data + 1, '.', domain.size - 2) != NULL;
  return dot_inside && memchr(domain.data, '@', domain.size) == NULL ? domain : GM("");
}

/* Fills `s`; what is returned is a failure if the body is no good signup. */
static gm_ending parse(gm_text body, signup *s) {
  size_t wrong_at;
  json_value fields = json_parse(body, &wrong_at);
  if (fields.type != JSON_OBJECT) return gm_reject(GM("bad-payload"), GM("the body is not a JSON object"));

  gm_optional_text email = json_text(json_field(fields, GM("email")));
  if (!email.some) return gm_reject(GM("invalid-email"), GM("email is not a string"));
  s->email = lower(trim(email.value));
  s->domain = domain_of(s->email);
  if (s->domain.size == 0) return gm_reject(GM("invalid-email"), GM("email is not of the form name@domain.tld"));

  gm_optional_text name = json_text(json_field(fields, GM("name")));
  if (!name.some) return gm_reject(GM("invalid-name"), GM("name is not a string"));
  s->name = single_spaced(name.value);
  if (s->name.size == 0) return gm_reject(GM("invalid-name"), GM("name is empty"));

  json_value plan = json_field(fields, GM("plan"));
  s->plan = plan.type == JSON_MISSING ? GM("free") : json_text(plan).value;
  if (!gm_equal(s->plan, GM("free")) && !gm_equal(s->plan, GM("pro")))
    return gm_reject(GM("invalid-plan"), GM("plan is neither free nor pro"));

  json_type reminder = json_field(fields, GM("reminder")).type;
  if (reminder != JSON_MISSING && reminder != JSON_FALSE && reminder != JSON_TRUE)
    return gm_reject(GM("bad-payload"), GM("reminder is neither true nor false"));
  s->reminder = reminder == JSON_TRUE;
  return gm_complete();
}

/* The setting is a list of domains with commas between them. */
static bool is_greylisted(gm_text domain) {
  gm_text rest = gm_config(GM("greylist")).value;
  while (rest.size > 0) {
    const char *comma = memchr(rest.data, ',', rest.size);
    size_t size = comma != NULL ? (size_t)(comma - rest.data) : rest.size;
    if (gm_equal(trim((gm_text){rest.data, size}), domain)) return true;
    size += comma != NULL;
    rest = (gm_text){rest.data + size, rest.size - size};
  }
  return false;
}

/* Asks for the reminder, once for each address. */
static gm_answer remind(gm_text topic, const signup *s) {
  gm_new_job reminder = gm_job_to(topic);
  reminder.body = gm_json(json_object({GM("email"), json_string(s->email)}, {GM("name"), json_string(s->name)},
                                      {GM("plan"), json_string(s->plan)}, {GM("reminder"), GM("true")}));
  reminder.not_before = gm_some_u64(gm_now() + REMINDER_DELAY_MS);
  reminder.unique = gm_some(gm_join(GM("reminder:"), s->email));
  reminder.priority = GM_LOW;
  return gm_enqueue(&reminder);
}

static gm_ending welcome(const signup *s, gm_text greeting) {
  return gm_complete_json(json_object({GM("email"), json_string(s->email)}, {GM("name"), json_string(s->name)},
                                      {GM("plan"), json_string(s->plan)}, {GM("greeting"), json_string(greeting)}));
}

gm_ending gm_handle(const gm_job *job) {
  signup s;
  gm_ending parsed = parse(job->body.data, &s);
  if (parsed.failed) return parsed;
  if (job->attempt == 1 && is_greylisted(s.domain))
    return gm_retry_after(GREYLIST_DELAY_MS, GM("greylisted"),
                          gm_join(s.domain, GM(" takes new senders at the second try")));
  if (s.reminder) {
    gm_info("reminder", {GM("domain"), s.domain}, {GM("plan"), s.plan});
    return welcome(&s, gm_join(GM("Still there, "), s.name, GM("?")));
  }
  gm_info("signup", {GM("domain"), s.domain}, {GM("plan"), s.plan});
  gm_answer enqueued = remind(job->topic, &s);
  if (enqueued.error != GM_OK) return gm_enqueue_failure(enqueued);
  return welcome(&s, gm_join(GM("Welcome, "), s.name, GM("!")));
}
