// SPDX-License-Identifier: Apache-2.0

// Package render fills templates with findings and Scans: mustache as existing cascading rules use it, and Go templates
// for everything that is new.
//
// What it decides:
//
//   - Mustache is what mustache.js 4.2 makes of it, since rules were written against that: eight characters are
//     escaped, lists print joined by commas, what is missing prints as nothing, numbers print as in JavaScript. The
//     Go libraries escape five characters, print lists as Go does and cannot be told otherwise. Partials are not
//     supported and render as nothing, as in mustache.js when none are given; properties that JavaScript objects
//     inherit (constructor, toString) do not exist.
//   - Go templates are text/template with the functions of Masterminds/sprig, the set that Helm made known, less those
//     that see the environment, files, the network, the clock or chance: a template that is rendered again gives the
//     same text, which retries count on. What is missing prints as nothing and not as "<no value>".
//   - Both are bounded: the output in bytes, Go templates in time, mustache in rounds through lists and in depth. A
//     template that loops for ever is an error of that template, not the end of the pod. Templates come from whoever
//     installs a hook, not from strangers: one that doubles a variable often enough still takes the pod's memory.
package render
