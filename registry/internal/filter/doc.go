// SPDX-License-Identifier: Apache-2.0

// Package filter decides which tags of a repository are taken. It is pure: discovery and the preview ask the same functions.
//
//	Filter ──Compile──► Compiled ──Select(repository, tags, now)──► Answer: selected, skipped with a reason, warnings
//
// What it decides:
//
//   - What can be seen in the filter alone is refused by Compile, with the field; so Select fails for one cause only, an expression
//     that ends with an error where onError is Fail.
//   - A tag is left out for the first reason of a fixed order (see judge). Tags that repositories names by themselves are asked for
//     less, and take no place of newest.
//   - newest counts images, not tags: tags of one digest go together.
//   - Patterns become regular expressions of RE2, and an expression has a bound of costs: no filter takes long.
package filter
