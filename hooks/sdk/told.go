// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"bytes"
	"errors"
	"io"

	"github.com/scanyard/scanyard/apis/outcome"
)

// ErrNotHandedOver says that the operator did not hand the Scan over, so that it is not told anything: the hook has to write
// the Scan's status itself.
var ErrNotHandedOver = errors.New("the Scan was not handed over")

// TellCondition has the operator set a condition of the Scan when the hook has ended well. The operator takes those that it knows.
func (s *Session) TellCondition(c outcome.Condition) error {
	if s.told == nil {
		return ErrNotHandedOver
	}
	s.told.Conditions = append(s.told.Conditions, c)
	return nil
}

// ErrFindingsChanged says that the findings in storage are others than those that were stored by the parser, or by the last hook
// that changed them.
var ErrFindingsChanged = errors.New("the findings in storage are not those that the parser, or the last hook that changes findings, has stored: " +
	"somebody else has written them since; find out who, then run the parser again (annotation scanyard.io/rerun: parser)")

// checkedAtOnce is the size up to which findings are held against what they must be before the first one is handed out.
const checkedAtOnce = 1 << 20

// checked reads findings that have to be certain bytes. Small ones are read and compared at once; of large ones, the end comes
// only when the whole was right.
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
