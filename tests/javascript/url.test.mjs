// `URL` and `URLSearchParams` of the JavaScript SDK, compared with those of Node.js.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as own from '../../guest-sdk/javascript/web/url.js';

const bases = [
  undefined, 'http://a.example/b/c/d;p?q#f', 'https://u:p@h.example:8443/x/', 'file:///etc/x', 'mailto:a@b', 'foo://h/p/q', 'foo:/p/q',
];
const inputs = [
  'http://example.org', 'HTTP://Example.ORG:80/a/../b/./c?x=1 2#f g', 'https://example.org:443/', 'http:\\\\a\\b', '//x.y/z', '/r', 'r/s',
  '../r', '../../../r', '?n=1', '#z', '', '.', '..', './', 'g;x=1/../y', 'http:g', 'http:/g', 'https:g', 'mailto:x@y.z',
  'data:text/plain,hello world', 'javascript:alert(1)', 'http://user:pass@host/', 'http://user@host', 'http://:p@host', 'http://@host',
  'http://', 'http://[::1]/', 'http://[2001:db8:0:0:1:0:0:1]:80/', 'http://[::ffff:1.2.3.4]', 'http://[1:2:3:4:5:6:7:8]',
  'http://[1::0:0:0]', 'http://[::]', 'http://[:1]', 'http://[1:2]', 'http://1.2.3.4', 'http://0x7f.1', 'http://127.1', 'http://256.1.1.1',
  'http://1.2.3.4.5', 'http://0300.1', 'http://1.2.3.08', 'http://foo.0x', 'http://bücher.example/ü?ü#ü', 'http://日本語.jp', 'http://faß.de',
  'http://a b/', 'http://a%20b', 'http://a%41b', 'http://a|b', 'foo://a b', 'foo://ex.org:99/%zz', 'foo:bar/baz?x#y', 'foo:/a/../b',
  'foo://h/../x', 'file:///a/b', 'file://localhost/x', 'file:a', 'file:/x', 'file://host/x', '  http://x  ', 'ht\ntp://x\ty/',
  'http://x:99999', 'http://x:', 'http://x:0', 'http://x:abc', 'http://x/%7Efoo/%2e%2E/bar', 'http://x/a{c}`d"e<f>|',
  'http://x/?a^b{c}`d"e<f>\'', 'foo://x/?a\'b', 'http://x/#a`b"c', 'ws://x:80', 'wss://x:443/a', 'ftp://x:21', 'http://ex.org./',
  'http://xn--bcher-kva.example', 'web+demo:/.//not-a-host/', 'web+demo:/..//not', 'foo:////a', 'http:////a/b', 'http://EXAMPLE.com/ÀÉ',
  'http://a@b@c/', 'http://a:b:c@d/', 'non-special://[::1]/x', 'http://x/a//b//..//c', 'http://x?y', 'http://x#y', 'http://x?', 'http://x#',
  'foo:?x', 'http://％４１.com', 'http://a\u00adb.com', 'http://x/\ud800', 'about:blank', 'urn:isbn:1', 'http://x/%', 'http://x\\@y/',
  'https://a_b.c/', 'http://*.x/', 'http://x/ a', 'tel:+1 2 ',
];
const parts = ['href', 'origin', 'protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'search', 'hash'];

const made = (URL, input, base) => {
  try {
    const url = new URL(input, base);
    return Object.fromEntries(parts.map((part) => [part, url[part]]));
  } catch ({ name, code }) {
    return { name, code };
  }
};

test('a URL has the same parts', () => {
  for (const base of bases) {
    for (const input of inputs) assert.deepEqual(made(own.URL, input, base), made(URL, input, base), `${input} from ${base}`);
  }
});

const settings = {
  protocol: ['https', 'foo', 'ftp:x', '1'],
  host: ['a.b:9', 'x', '', '[::1]:5', 'a b', 'x:80', 'y/z'],
  hostname: ['a.b:9', 'q', '', 'é.x'],
  port: ['9', '', '80', '99999', '8x', 'x'],
  pathname: ['a/b', '/../x', '', '?x', 'a\\b'],
  search: ['?a=b', '', 'x y', "'"],
  hash: ['#a', '', 'b c'],
  username: ['a b', ''],
  password: ['p:q', ''],
  href: ['http://n/'],
};

test('a part that is set changes the same', () => {
  const set = (URL, text, part, value) => {
    const url = new URL(text);
    url[part] = value;
    return `${url.href} ${url.searchParams}`;
  };
  for (const text of ['http://u:p@h.x:8/p?q#f', 'foo://h/p', 'mailto:a', 'file:///x']) {
    for (const [part, values] of Object.entries(settings)) {
      for (const value of values) {
        assert.equal(set(own.URL, text, part, value), set(URL, text, part, value), `${part} of ${text}: ${value}`);
      }
    }
  }
});

test('parameters are read, changed and written the same', () => {
  const changed = (URLSearchParams, given) => {
    const params = new URLSearchParams(given);
    const before = [String(params), params.get('a'), params.getAll('a'), params.has('c'), params.has('a', 'b'), [...params], [...params.keys()]];
    params.set('a', 'ü&');
    params.append('z', '1 2');
    params.delete('c');
    params.sort();
    return [...before, String(params), params.size];
  };
  const given = ['a=b&c=d&a=x', '?a=%zz&b=%E4&c=%C3%A9+x', '=&&=x&y', 'a=b=c', '%F0%9F%98%80=1', "a!'()*~-._=@:/ é", { a: 1, c: 'é' }, [['a', 'b']]];
  for (const each of given) assert.deepEqual(changed(own.URLSearchParams, each), changed(URLSearchParams, each));
});

test('parameters are those of their URL', () => {
  const seen = (URL) => {
    const url = new URL('http://x/?a=1');
    url.searchParams.append('b', 'c d');
    const before = url.href;
    url.search = '?z=9';
    return [before, url.searchParams.get('z'), JSON.stringify({ url })];
  };
  assert.deepEqual(seen(own.URL), seen(URL));
});
