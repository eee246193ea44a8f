// SPDX-License-Identifier: Apache-2.0

// Package web is what every page stands on: the frame around it, its request, its errors, its changes.
//
//	request ─► headers, limits ─► session ─► Viewer and scope ─► the page's handler ─► View ─► template in the frame
//	change  ─► the same, and the token of the session ─► the page's action ─► back to a page
//
// What it decides:
//
//   - A page loads nothing but what the console serves; no script and no style stands in it. Its answer is for its viewer
//     alone and is not kept.
//   - What a page cannot read becomes a note that names the right or the part that is missing, never a blank page.
//   - A session makes at most some requests a second, and has at most six live parts open.
package web
