// SPDX-License-Identifier: Apache-2.0

// Package sink is what a sink is: a far end that takes records and says what of them it has.
// A sink delivers one batch at a time, and tells by the class of its error what is to become of the data.
// Retries, order and windows belong to the core that calls the sink.
//
// A sink registers its scheme:
//
//	func init() { sink.Register("mqtt", open) }
//
// and is in a program as soon as the program imports its package.
package sink
