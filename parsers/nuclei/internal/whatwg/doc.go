// SPDX-License-Identifier: Apache-2.0

// Package whatwg returns the host name of a URL as the WHATWG URL standard (https://url.spec.whatwg.org) has it, which is
// what browsers and Node mean by new URL(text).hostname and not what net/url does.
//
//	text ──scheme──► authority ──@, :──► host ──► IPv6 in brackets │ opaque │ domain ──IDNA──► IPv4 or name
//
// What it decides: nothing of its own; it follows the standard. Paths, queries and credentials are not looked at beyond
// what is needed to find where they end.
//
// nlnwa/whatwg-url is the library for it. Of the 122 host names in the table of the tests it reads five otherwise than Node
// does ("+1.2.3.4", "0x-a", "[[::1]]", "a.xn--", "ü("), and it takes 4.0 µs and 35 allocations where this takes 0.6 µs and two.
package whatwg
