// SPDX-License-Identifier: Apache-2.0

// Package whatweb is the parser of WhatWeb's JSON log, result type whatweb-json: one finding per target.
//
// What it decides:
//
//   - What a plugin says becomes an attribute of the plugin's name, the first text and the first module joined by '/'.
//     IP, Title, Country and HTML5 have places of their own.
//   - A plugin does not replace an attribute that says something already; one that is empty it does.
//   - An empty log and a document that is not a list hold no targets, nor does an empty entry. The log that WhatWeb leaves
//     when it refuses its arguments is an error that says so.
package whatweb
