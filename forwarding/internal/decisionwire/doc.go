// SPDX-License-Identifier: Apache-2.0

// Package decisionwire turns decisions into messages of the protocol and back.
//
//	line of JSON ──Message──► forwardingv1.Record ──AppendLine──► line of JSON
//
// Values keep their bytes both ways. Only keys that are known move: they come first in a line that is made from a message.
package decisionwire
