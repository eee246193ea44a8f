// SPDX-License-Identifier: Apache-2.0

// Package session says who looks at the console, and keeps nothing but which sessions were ended: a session is an encrypted cookie.
//
//	one-time code or sign-in ─► Session ─► Keeper.Write ─► cookie ─► Keeper.Read ─► Session of the next request
//	every request ─► Guard: its Host is ours, it comes from no foreign page ─► the pages
//
// What it decides:
//
//   - A cookie is sealed with AES-256-GCM. The first key seals, every key opens, so that keys can be changed while people
//     work. A cookie that no key opens, or that has run out, is not a session.
//   - A session whose token is large has two cookies. It ends after twelve hours, with its token, or when somebody ends it.
//   - A sign-in at a provider that has begun is a sealed cookie too, and nothing that can be taken for a session.
//   - A one-time code opens one session, once, within ten minutes. It is compared in constant time.
//   - Guard refuses a Host that is not ours, as a page has that rebinds a name to the loopback address, and every change
//     that a foreign page asks for. Beside that a change needs the token of the session, see [Session.Owns].
package session
