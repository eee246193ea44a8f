// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"bytes"
	"errors"
	"io"

	"github.com/scanyard/scanyard/apis/outcome"
)

// ErrNotHandedOver says that the operator did not hand the Scan over, so that nothing can be reported to it: the hook has to
// write the Scan's status itself.
var ErrNotHandedOver = errors.New("the Scan was not handed over")

// ReportCondition has the operator set a condition of the Scan when the hook has succeeded. The operator sets only types it knows.
func (s *Session) ReportCondition(c outcome.Condition) error {
	if s.outcome == nil {
		return ErrNotHandedOver
	}
	s.outcome.Conditions = append(s.outcome.Conditions, c)
	return nil
}

// ErrFindingsChanged says that the findings in storage are not those that the parser, or the last hook that changed them, has
// stored.
var ErrFindingsChanged = errors.New("the findings in storage are not those that the parser, or the last hook that changes findings, has stored: " +
	"another client has written them since; find out which, then run the parser again (annotation scanyard.io/rerun: parser)")

// checkedAtOnce is the size up to which findings are compared with the known digest before the first one is handed out.
const checkedAtOnce = 1 << 20

// checked reads findings with a known digest. Small ones are read and compared at once; of large ones, the end comes only if the
// whole was right.
func checked(body io.ReadCloser, want outcome.Stored) (io.ReadCloser, error) {
	c := want.Reader(body, ErrFindingsChanged)
	if want.Size > checkedAtOnce {
		return c, nil
	}
	text, err := io.ReadAll(c)
	if err = errors.Join(err, body.Close()); err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(text)), nil
}
