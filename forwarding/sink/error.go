// SPDX-License-Identifier: Apache-2.0

package sink

import (
	"errors"
	"time"
)

// Class tells what is to become of data that was not delivered. Only Refused may take a record out of a queue.
type Class string

// The classes of errors.
const (
	// Transport: the far end was not reached, or gave no answer that tells anything. Kept, with backoff.
	Transport Class = "transport"
	// Auth: the far end and the sender do not trust each other. Kept; only probed.
	Auth Class = "auth"
	// Incompatible: the far end does not speak what the sink speaks. Kept; only probed.
	Incompatible Class = "incompatible"
	// Overload: the far end asks for less. Kept, with its delay and smaller batches.
	Overload Class = "overload"
	// Refused: the far end refuses records for what is in them.
	Refused Class = "record"
)

// Error is why a batch was not delivered.
type Error struct {
	Class  Class
	Reason Reason
	// Message is for people: what failed and what to do, without secrets and with at most 256 characters of the far end's words.
	Message string
	// RetryAfter is how long the far end asks to be left alone; 0 where it says nothing.
	RetryAfter time.Duration
}

func (e *Error) Error() string { return string(e.Reason) + ": " + e.Message }

// AsError gives the *Error in err. An error that is none is of class Transport with the reason Unknown.
func AsError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Class: Transport, Reason: Unknown, Message: err.Error()}
}

// Reason is the reason of a failure, as conditions and metrics show it.
type Reason string

// Reasons that sinks give.
const (
	ConnectionRefused         Reason = "ConnectionRefused"
	DNSFailed                 Reason = "DNSFailed"
	Timeout                   Reason = "Timeout"
	ProxyFailed               Reason = "ProxyFailed"
	EndpointNotAllowed        Reason = "EndpointNotAllowed"
	UntrustedServer           Reason = "UntrustedServer"
	ServerNameMismatch        Reason = "ServerNameMismatch"
	ServerCertificateExpired  Reason = "ServerCertificateExpired"
	ClientCertificateMissing  Reason = "ClientCertificateMissing"
	ClientCertificateExpired  Reason = "ClientCertificateExpired"
	ClientCertificateRejected Reason = "ClientCertificateRejected"
	TLSFailed                 Reason = "TLSFailed"
	TokenRejected             Reason = "TokenRejected"
	PermissionDenied          Reason = "PermissionDenied"
	SecretMissing             Reason = "SecretMissing"
	SecretNotGranted          Reason = "SecretNotGranted"
	NotCompatible             Reason = "Incompatible"
	RefusesEverything         Reason = "RefusesEverything"
	Overloaded                Reason = "Overloaded"
	RecordsRejected           Reason = "RecordsRejected"
	TooLarge                  Reason = "TooLarge"
	Incomplete                Reason = "Incomplete"
	ResultsChanged            Reason = "ResultsChanged"
	// Disconnected: the far end was reached, and the connection broke or the answer made no sense.
	Disconnected Reason = "Disconnected"
	// Unknown: nothing more is known than the message.
	Unknown Reason = "Unknown"
)
