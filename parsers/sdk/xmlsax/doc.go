// SPDX-License-Identifier: Apache-2.0

// Package xmlsax reads XML as a stream of tags and texts, by the rules of the strict SAX parser that the findings of
// XML scanners have always been made with. encoding/xml is not that parser: it refuses control characters, which nmap
// writes into script output, and turns CR LF into LF.
//
// What it decides:
//
//   - Accepted: comments and blank lines before the XML declaration; any declared version and encoding (the text is
//     UTF-8, invalid bytes become U+FFFD); control characters, raw or as references; '<' in an attribute's value and
//     "]]>" in text; white space after '<'; HTML 4 entities.
//   - Refused: &#0;, unknown entities, a bare '&', attributes without quotes or value, "--" inside a comment, tags
//     that do not match, text before the root element, an element that is never closed.
//   - Text is given as it is: CR LF stays, nothing is trimmed. A text may come in pieces; comments and CDATA limits
//     between pieces are not shown.
//   - DOCTYPE and processing instructions are passed over. No entity that a document declares is ever expanded, and
//     nothing outside of the document is ever read.
//   - After the end of the root element nothing more is read.
//   - Memory is bounded by one tag, whatever the input; [Limits] say how large one may be.
package xmlsax
