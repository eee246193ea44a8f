// SPDX-License-Identifier: Apache-2.0

// Package scope decides whether a finding is within the scope that a Scan may cascade to: the `scopeLimiter` of its
// `spec.cascades` compares annotations of the Scan, which no rule can change, with values rendered from the finding.
//
// What it decides:
//
//   - allOf, anyOf and noneOf must all hold; an absent or empty group holds. Within a group evaluation stops at the first
//     requirement that settles it, so a mistake behind that is not seen.
//   - A value is rendered twice: with the aliases of the ParseDefinition alone, and what comes of it (or the value itself,
//     if nothing does) with the finding. Around a finding's field no text may stand: the first rendering would swallow
//     the field.
//   - A value that renders to nothing makes the whole requirement what validOnMissingRender says.
//   - Invalid input is an error and no result: a key outside [Domain], a missing annotation, an unknown operator, an invalid
//     address, a host name without a public top level domain. The caller must then start nothing.
//
// Strict mode refuses what else passes in silence: a noneOf whose value does not render, an address of another family than
// the network, and a requirement without values. In strict mode an annotation may hold several networks, separated by
// commas, since one of each family would otherwise never do.
package scope
