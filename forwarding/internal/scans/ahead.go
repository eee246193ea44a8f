// SPDX-License-Identifier: Apache-2.0

package scans

import (
	"google.golang.org/protobuf/proto"

	"github.com/scanyard/scanyard/forwarding/internal/mapping"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// Bounds of what is read ahead.
const (
	pieceRecords = 128
	pieceBytes   = 256 << 10
	piecesAhead  = 4
)

// read is what one call of a Reader gave, and where the Reader was before.
type read struct {
	before mapping.Position
	record sink.Record
	size   int
	err    error
}

// readAhead reads records while those before them are on their way to the far end. The last one that it gives has an error, such as io.EOF; then
// the reader is the caller's again. Without that the caller calls stop, after it has made sure that nothing holds the reader up.
func readAhead(reader *mapping.Reader) (pieces <-chan []read, stop func()) {
	to, stopped := make(chan []read, piecesAhead), make(chan struct{})
	go func() {
		defer close(to)
		for {
			piece := readPiece(reader)
			select {
			case to <- piece:
			case <-stopped:
				return
			}
			if piece[len(piece)-1].err != nil {
				return
			}
		}
	}()
	return to, func() {
		close(stopped)
		for range to { // it is closed when the reader is at rest
		}
	}
}

// readPiece reads some records, or those before an error and the error.
func readPiece(reader *mapping.Reader) []read {
	piece := make([]read, 0, pieceRecords)
	for bytes := 0; len(piece) < pieceRecords && bytes < pieceBytes; {
		one := read{before: reader.Position()}
		if one.record, one.err = reader.Next(); one.err == nil {
			one.size = proto.Size(one.record.Message)
		}
		piece = append(piece, one)
		if one.err != nil {
			break
		}
		bytes += one.size
	}
	return piece
}
