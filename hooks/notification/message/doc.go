// SPDX-License-Identifier: Apache-2.0

// Package message writes the text for a channel: about a Scan, about many findings, or about one.
//
//	Scan, Findings ──Message.Render──► text ──ToObject──► what a chat takes
//	Scan, finding ──NewEntry──► Entry: title, text, key ──► what a tracker takes
//
// What it decides:
//
//   - Templates are files of the user's, then those built in. What they make is read as YAML, of which JSON is a part.
//   - A text from a scanner is in fences where nothing is a link, a picture or a mention, and no text ends its fence.
//   - An entry's key is the same in every run of the hook and of the scanner.
package message
