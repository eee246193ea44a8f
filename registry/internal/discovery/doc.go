// SPDX-License-Identifier: Apache-2.0

// Package discovery takes one repository from its list of tags to its images.
//
//	Demand ─► list ─► by name ─► HEAD ─► known digest? ─► GET by digest, configs ─► Select ─► tags, images, what is gone
//	           └─ a page ──────────┴── checkpoint: tags, cursor
//
// What it decides:
//
//   - A tag that its name alone leaves out is not asked for; a digest that is known is not fetched again; a digest is fetched once,
//     however many tags it has. So an unchanged repository of n tags costs n HEADs and its lists.
//   - Images are read before the filter judges only where the filter needs dates or platforms. Else the images of selected tags are
//     read, and of no others.
//   - A list that broke off is used, and nothing is taken for gone. Neither is what lies behind the cursor of a list that goes on.
//   - A checkpoint is written after 1,000 tags of which something was learned, or after 30 s. What is as it was needs none before.
//   - A document that is broken is the reason of its tag, remembered with it. What may heal, such as a manifest that is missing,
//     is asked for again the next time.
package discovery
