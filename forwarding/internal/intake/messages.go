// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"encoding/json"
)

// What a client says in control lines.
type control struct {
	Hello *hello           `json:"$hello"`
	Ping  *json.RawMessage `json:"$ping"`
}

type hello struct {
	Protocol int    `json:"protocol"`
	Session  string `json:"session"`
	Producer string `json:"producer"`
	First    uint64 `json:"first"`
}

// What the exporter says.
type message struct {
	Welcome *welcome       `json:"welcome,omitempty"`
	Ack     *through       `json:"ack,omitempty"`
	Pong    *through       `json:"pong,omitempty"`
	Bye     *through       `json:"bye,omitempty"`
	Reject  *reject        `json:"reject,omitempty"`
	Pause   *pause         `json:"pause,omitempty"`
	Resume  *struct{}      `json:"resume,omitempty"`
	Error   *protocolError `json:"error,omitempty"`
}

type welcome struct {
	Protocol     int    `json:"protocol"`
	Through      uint64 `json:"through"`
	Gap          uint64 `json:"gap"`
	MaxLineBytes int    `json:"maxLineBytes"`
	WindowBytes  int64  `json:"windowBytes"`
	Durable      bool   `json:"durable"`
}

type through struct {
	Through uint64 `json:"through"`
}

type reject struct {
	Line    uint64 `json:"line"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Retry   bool   `json:"retry"`
}

type pause struct {
	Reason string `json:"reason"`
	Tenant string `json:"tenant,omitempty"`
}

type protocolError struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Supported []int  `json:"supported,omitempty"`
}

// Codes of rejects and errors.
const (
	codeMalformed           = "Malformed"
	codePassedOver          = "PassedOver" // an event of an audit that is not a decision
	codeTooLarge            = "TooLarge"
	codeTruncated           = "Truncated"
	codeQuotaReached        = "QuotaReached"
	codeNotAllowed          = "NotAllowed"
	codeTooManyConnections  = "TooManyConnections"
	codeUnsupportedProtocol = "UnsupportedProtocol"
	codeUnknownControl      = "UnknownControl"
	codeLineTooLong         = "LineTooLong"
	codeTooManyRejects      = "TooManyRejects"
)

func encode(m message) []byte {
	line, _ := json.Marshal(m) // texts and numbers are always JSON
	return append(line, '\n')
}
