// The table of egress-differences.spec.ts: odd answers of an origin, and odd requests of clients. Each is asked for by curl, Python, Node and
// a browser, straight and in a sandbox.

export interface OddAnswer {
  name: string
  /** The bytes of the answer, one a UTF-16 unit. */
  answer: string
  method?: 'HEAD' | 'PUT'
  /** The answer comes with the head of the request, before its body. */
  early?: boolean
  /** The intended difference in a sandbox, as docs/internals/egress.md has it. */
  differs?: string
}

const ok = (...lines: string[]) => `HTTP/1.1 200 OK\r\n${lines.map((line) => `${line}\r\n`).join('')}`
const body = 'Content-Length: 5\r\n\r\nhello'

export const answers: OddAnswer[] = [
  { name: 'plain', answer: ok() + body },
  {
    name: 'a folded line',
    differs: 'A header line that is folded is joined',
    answer: ok('X-Odd: one', ' two') + body,
  },
  {
    name: 'a space before the colon',
    differs: 'spaces before its colon are dropped',
    answer: ok('X-Odd : one') + body,
  },
  {
    name: 'a line without a colon',
    differs: 'a line without a colon is left out',
    answer: ok('nonsense', 'X-Odd: one') + body,
  },
  // Curl passes it on, Python ends the value there, Node.js refuses the answer. A proxy must not pass it on (RFC 9112, 2.2).
  {
    name: 'a CR within a line',
    differs: 'So is an answer with a CR within a line, which Node.js refuses too',
    answer: ok('X-Odd: a\rb') + body,
  },
  { name: 'an empty value', answer: ok('X-Odd:') + body },
  { name: 'a value beyond ASCII', answer: ok('X-Odd: \xe9\xfc') + body },
  { name: 'a tab in a value', answer: ok('X-Odd: a\tb') + body },
  { name: 'no reason', answer: `HTTP/1.1 200\r\n${body}` },
  { name: 'an empty reason', answer: `HTTP/1.1 200 \r\n${body}` },
  { name: 'a reason beyond ASCII', answer: `HTTP/1.1 200 \xe9t\xe9\r\n${body}` },
  { name: 'status 299', answer: `HTTP/1.1 299 Odd\r\n${body}` },
  { name: 'status 599', answer: `HTTP/1.1 599 Odd\r\n${body}` },
  { name: 'HTTP/1.0', answer: `HTTP/1.0 200 OK\r\n${body}` },
  {
    name: 'lines that end by LF',
    differs: 'lines may end by LF alone',
    answer: 'HTTP/1.1 200 OK\nX-Odd: one\nContent-Length: 5\n\nhello',
  },
  { name: 'the end of the connection as length', answer: `${ok()}\r\nhello` },
  {
    name: 'the same length twice',
    differs: 'The length of an answer is that of its body, once',
    answer: ok('Content-Length: 5') + body,
  },
  {
    name: 'two lengths that differ',
    differs:
      'An answer that is no HTTP, that has lengths that differ, or none at all, is 502 with one line that says why',
    answer: ok('Content-Length: 4') + body,
  },
  {
    name: 'a list of equal lengths',
    differs: 'The length of an answer is that of its body, once',
    answer: `${ok('Content-Length: 5, 5')}\r\nhello`,
  },
  {
    name: 'a length with a plus',
    differs:
      'An answer that is no HTTP, that has lengths that differ, or none at all, is 502 with one line that says why',
    answer: `${ok('Content-Length: +5')}\r\nhello`,
  },
  { name: 'fewer bytes than the length', answer: `${ok('Content-Length: 9')}\r\nhello` },
  {
    name: 'more bytes than the length',
    differs: 'bytes beyond it are dropped',
    answer: `${ok('Content-Length: 4')}\r\nhello`,
  },
  { name: 'chunks', answer: `${ok('Transfer-Encoding: chunked')}\r\n5\r\nhello\r\n0\r\n\r\n` },
  {
    name: 'extensions of chunks',
    answer: `${ok('Transfer-Encoding: chunked')}\r\n5;a=b\r\nhello\r\n0\r\n\r\n`,
  },
  {
    name: 'trailers',
    answer: `${ok('Transfer-Encoding: chunked')}\r\n5\r\nhello\r\n0\r\nX-Odd: late\r\n\r\n`,
  },
  {
    name: 'leading zeros of a chunk',
    answer: `${ok('Transfer-Encoding: chunked')}\r\n0005\r\nhello\r\n0\r\n\r\n`,
  },
  { name: 'chunks that are cut', answer: `${ok('Transfer-Encoding: chunked')}\r\n9\r\nhello` },
  {
    name: 'chunks and a length',
    differs: 'The length of an answer is that of its body, once',
    answer: `${ok('Transfer-Encoding: chunked', 'Content-Length: 3')}\r\n5\r\nhello\r\n0\r\n\r\n`,
  },
  { name: 'an interim answer', answer: `HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n${ok()}${body}` },
  { name: 'status 204', answer: 'HTTP/1.1 204 No Content\r\n\r\n' },
  {
    name: 'status 304 with a length',
    differs: 'Status 304 has no length',
    answer: 'HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n',
  },
  { name: 'HEAD with a length', method: 'HEAD', answer: `${ok()}Content-Length: 5\r\n\r\n` },
  {
    name: '150 cookies',
    answer: ok(...Array.from({ length: 150 }, (_, index) => `Set-Cookie: c${index}=1`)) + body,
  },
  { name: 'a line of 20 KB', answer: ok(`X-Odd: ${'x'.repeat(20_000)}`) + body },
  {
    name: 'an unknown coding',
    differs: 'What a host with a secret or a meter does not take',
    answer: ok('Content-Encoding: odd') + body,
  },
  {
    name: 'no answer',
    differs:
      'An answer that is no HTTP, that has lengths that differ, or none at all, is 502 with one line that says why',
    answer: '',
  },
  {
    name: 'no HTTP',
    differs:
      'An answer that is no HTTP, that has lengths that differ, or none at all, is 502 with one line that says why',
    answer: 'hello\r\n',
  },
  {
    name: 'an empty line first',
    differs: 'an empty line before an answer is skipped',
    answer: `\r\n${ok()}${body}`,
  },
  {
    name: 'a refusal before the body of the request',
    method: 'PUT',
    early: true,
    answer: 'HTTP/1.1 401 No\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno',
  },
]

export interface OddRequest {
  name: string
  /** Method and target. */
  line: string
  differs?: string
}

const target = (text: string) => `GET /echo/${text}`

export const requests: OddRequest[] = [
  {
    name: 'quotes and brackets in a query',
    differs: 'are percent-encoded, as browsers do it',
    line: target('a?q="<>[]{}|^`'),
  },
  {
    name: 'brackets in a path',
    differs: 'are percent-encoded, as browsers do it',
    line: target('[a]{b}|^`<c>'),
  },
  { name: 'a backslash', line: target('a\\b') },
  { name: 'an empty query', line: target('a?') },
  { name: 'two slashes', line: target('/a//b') },
  { name: 'dots', line: target('a/../b/./c') },
  { name: 'escapes that need none', line: target('%61%2f%2F') },
  { name: 'a broken escape', line: target('a%zz') },
  { name: '6,000 bytes', line: target('x'.repeat(6000)) },
  { name: 'another method', line: 'PURGE /echo/a' },
  { name: 'a method in small letters', line: 'purge /echo/a' },
  { name: 'an asterisk', line: 'OPTIONS /echo/*' },
  { name: 'an upload', line: 'PUT /echo/a' },
  { name: 'a semicolon and a plus', line: target('a;b=1?c+d&&=') },
]
