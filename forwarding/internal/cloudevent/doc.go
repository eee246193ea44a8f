// SPDX-License-Identifier: Apache-2.0

// Package cloudevent writes records as CloudEvents in structured JSON: what sinks in JSON send, and what the receiver shows.
//
// The data of a decision is its line, byte for byte. The data of a record of a Scan is the JSON form of its message with the names of the
// protocol, in which the finding's own JSON stands as it was, as the objects attributes and extra_keys.
// An event is one line: line breaks between parts of foreign JSON become spaces.
package cloudevent
