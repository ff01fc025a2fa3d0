#include "json.h"

#include <string.h>

enum { DEEPEST = 128 };

/* ---- Reading: each of these moves `at` behind what it has read, or stops at the first wrong byte ---- */

typedef struct {
  const char *at, *end;
} reader;

static bool next_is(const reader *r, char c) { return r->at < r->end && *r->at == c; }

static bool take(reader *r, char c) {
  if (!next_is(r, c)) return false;
  r->at++;
  return true;
}

static void skip_space(reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\r' || *r->at == '\n')) r->at++;
}

static bool digits(reader *r) {
  const char *begin = r->at;
  while (r->at < r->end && *r->at >= '0' && *r->at <= '9') r->at++;
  return r->at > begin;
}

static bool number(reader *r) {
  take(r, '-');
  if (!take(r, '0') && !digits(r)) return false;
  if (take(r, '.') && !digits(r)) return false;
  if (take(r, 'e') || take(r, 'E')) {
    if (!take(r, '+')) take(r, '-');
    return digits(r);
  }
  return true;
}

static bool word(reader *r, const char *text) {
  for (; *text != 0; text++)
    if (!take(r, *text)) return false;
  return true;
}

/* Four hexadecimal digits, or -1. */
static int32_t hex4(reader *r) {
  int32_t code = 0;
  for (int i = 0; i < 4; i++, r->at++) {
    if (r->at == r->end) return -1;
    char c = *r->at;
    if (c >= '0' && c <= '9') code = code * 16 + (c - '0');
    else if (c >= 'a' && c <= 'f') code = code * 16 + (c - 'a' + 10);
    else if (c >= 'A' && c <= 'F') code = code * 16 + (c - 'A' + 10);
    else return -1;
  }
  return code;
}

/* What follows a backslash, as a code point, or -1. */
static int32_t escape(reader *r) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  if (r->at == r->end) return -1;
  const char *simple = *r->at != 0 ? strchr(from, *r->at) : NULL;
  if (simple != NULL) {
    r->at++;
    return to[simple - from];
  }
  if (!take(r, 'u')) return -1;
  int32_t code = hex4(r);
  if (code < 0xD800 || code > 0xDFFF) return code;
  if (code > 0xDBFF || !take(r, '\\') || !take(r, 'u')) return -1; /* half a pair */
  int32_t low = hex4(r);
  if (low < 0xDC00 || low > 0xDFFF) return -1;
  return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
}

/* One character of more than one byte, by table 3-7 of the Unicode standard: no overlong forms, no surrogates. */
static bool utf8(reader *r) {
  unsigned char first = (unsigned char)*r->at;
  int more = first >= 0xC2 && first <= 0xDF ? 1 : first >= 0xE0 && first <= 0xEF ? 2 : first >= 0xF0 && first <= 0xF4 ? 3 : 0;
  if (more == 0 || r->end - r->at <= more) return false;
  unsigned char second = (unsigned char)r->at[1];
  unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (second < low || second > high) return false;
  for (int i = 2; i <= more; i++)
    if (((unsigned char)r->at[i] & 0xC0) != 0x80) return false;
  r->at += more + 1;
  return true;
}

static void skip_plain(reader *r) {
  const char *at = r->at;
  while (at < r->end && (signed char)*at >= 0x20 && *at != '"' && *at != '\\') at++; /* ASCII: the rest is negative */
  r->at = at;
}

static bool string(reader *r) {
  if (!take(r, '"')) return false;
  for (;;) {
    skip_plain(r);
    if (take(r, '"')) return true;
    if (take(r, '\\')) {
      if (escape(r) < 0) return false;
    } else if (r->at == r->end || !utf8(r)) { /* a control character is no UTF-8 of several bytes */
      return false;
    }
  }
}

static bool value(reader *r, int depth);

static bool array(reader *r, int depth) {
  take(r, '[');
  skip_space(r);
  if (take(r, ']')) return true;
  do {
    if (!value(r, depth + 1)) return false;
    skip_space(r);
  } while (take(r, ','));
  return take(r, ']');
}

static bool name(reader *r) {
  skip_space(r);
  if (!string(r)) return false;
  skip_space(r);
  return take(r, ':');
}

static bool object(reader *r, int depth) {
  take(r, '{');
  skip_space(r);
  if (take(r, '}')) return true;
  do {
    if (!name(r) || !value(r, depth + 1)) return false;
    skip_space(r);
  } while (take(r, ','));
  return take(r, '}');
}

static bool value(reader *r, int depth) {
  skip_space(r);
  if (r->at == r->end || depth > DEEPEST) return false;
  switch (*r->at) {
    case '{': return object(r, depth);
    case '[': return array(r, depth);
    case '"': return string(r);
    case 'n': return word(r, "null");
    case 't': return word(r, "true");
    case 'f': return word(r, "false");
    default: return number(r);
  }
}

/* ---- Values ---- */

static json_value value_at(const char *begin, const char *end) {
  json_value v = {JSON_NUMBER, {begin, (size_t)(end - begin)}};
  switch (*begin) {
    case '{': v.type = JSON_OBJECT; break;
    case '[': v.type = JSON_ARRAY; break;
    case '"': v.type = JSON_STRING; break;
    case 'n': v.type = JSON_NULL; break;
    case 't': v.type = JSON_TRUE; break;
    case 'f': v.type = JSON_FALSE; break;
  }
  return v;
}

json_value json_parse(gm_text document, size_t *wrong_at) {
  reader r = {document.data, document.data + document.size};
  skip_space(&r);
  const char *begin = r.at;
  bool right = value(&r, 0);
  const char *end = r.at;
  skip_space(&r);
  *wrong_at = (size_t)(r.at - document.data);
  return right && r.at == r.end ? value_at(begin, end) : (json_value){0};
}

json_value json_field(json_value object, gm_text wanted) {
  json_value found = {0};
  if (object.type != JSON_OBJECT) return found;
  reader r = {object.raw.data + 1, object.raw.data + object.raw.size};
  do { /* json_parse has seen all of it; here it only fails at the end, or in an empty object */
    skip_space(&r);
    const char *begin = r.at;
    if (!string(&r)) break;
    gm_optional_text field = json_text(value_at(begin, r.at));
    skip_space(&r);
    take(&r, ':');
    skip_space(&r);
    begin = r.at;
    value(&r, 0);
    if (gm_equal(field.value, wanted)) found = value_at(begin, r.at);
    skip_space(&r);
  } while (take(&r, ','));
  return found;
}

static char *put_utf8(char *out, int32_t code) {
  if (code < 0x80) {
    *out++ = (char)code;
  } else if (code < 0x800) {
    *out++ = (char)(0xC0 | code >> 6);
    *out++ = (char)(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    *out++ = (char)(0xE0 | code >> 12);
    *out++ = (char)(0x80 | (code >> 6 & 0x3F));
    *out++ = (char)(0x80 | (code & 0x3F));
  } else {
    *out++ = (char)(0xF0 | code >> 18);
    *out++ = (char)(0x80 | (code >> 12 & 0x3F));
    *out++ = (char)(0x80 | (code >> 6 & 0x3F));
    *out++ = (char)(0x80 | (code & 0x3F));
  }
  return out;
}

gm_optional_text json_text(json_value string) {
  if (string.type != JSON_STRING) return (gm_optional_text){0};
  gm_text inside = {string.raw.data + 1, string.raw.size - 2};
  if (inside.size == 0 || memchr(inside.data, '\\', inside.size) == NULL) return gm_some(inside);
  char *text = gm_alloc(inside.size), *out = text; /* an escape is never shorter than what it stands for */
  reader r = {inside.data, inside.data + inside.size};
  while (r.at < r.end) {
    if (take(&r, '\\')) out = put_utf8(out, escape(&r));
    else *out++ = *r.at++;
  }
  return gm_some((gm_text){text, (size_t)(out - text)});
}

/* ---- Writing ---- */

gm_text json_string(gm_text text) {
  static const char hex[] = "0123456789abcdef", letters[] = "btn?fr"; /* of the codes 8 to 13 */
  char *json = gm_alloc(text.size * 6 + 2), *out = json;               /* \u0000 is the longest */
  *out++ = '"';
  for (size_t i = 0; i < text.size; i++) {
    unsigned char c = (unsigned char)text.data[i];
    if (c == '"' || c == '\\') {
      *out++ = '\\';
      *out++ = (char)c;
    } else if (c >= 0x20) {
      *out++ = (char)c;
    } else if (c >= 8 && c <= 13 && c != 11) {
      *out++ = '\\';
      *out++ = letters[c - 8];
    } else {
      memcpy(out, "\\u00", 4);
      out[4] = hex[c >> 4];
      out[5] = hex[c & 15];
      out += 6;
    }
  }
  *out++ = '"';
  return (gm_text){json, (size_t)(out - json)};
}

gm_text json_object_of(gm_pairs fields) {
  gm_text *parts = gm_alloc((fields.size * 4 + 1) * sizeof *parts), *part = parts;
  for (size_t i = 0; i < fields.size; i++) {
    *part++ = i == 0 ? GM("{") : GM(",");
    *part++ = json_string(fields.data[i].name);
    *part++ = GM(":");
    *part++ = fields.data[i].value;
  }
  *part++ = fields.size == 0 ? GM("{}") : GM("}");
  return gm_join_all(parts, (size_t)(part - parts));
}
