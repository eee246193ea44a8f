// SPDX-License-Identifier: Apache-2.0

// Package outcome is what a parser or a hook of ours tells the operator when it has done its work: how many findings it has
// stored, what they are to the byte, whether the scanner reached its target, and conditions for the Scan. The container writes
// it where the kubelet takes a container's last words from (its termination message), and the operator reads it from the status
// of that pod. So the container needs no right in the Kubernetes API, and no pod can speak for the Scan of another.
//
//	parser, hook ──Encode──► /dev/termination-log ──kubelet──► pod's status ──Decode──► operator ──► Scan's status
//	     └── Spill: categories beyond 4 KB ──presigned PUT──► storage ──DecodeCategories──┘
//
// What it decides:
//
//   - An outcome is one JSON object of at most [MaxSize] bytes, which is all that the kubelet keeps. It begins with its version,
//     so that nobody takes a sentence for it, or it for a sentence: [ErrNone] and [ErrVersion] tell these apart.
//   - The reader believes nothing that it can hold against something else. Counts are not negative and not beyond [MaxCount],
//     those of severities and categories are no more than the whole, texts are cut and made of one harmless line each. An outcome
//     that breaks a rule is refused as a whole.
//   - Fields that the reader does not know are passed over, so that images may be newer than the operator. What changes the
//     meaning of a known field is a new version.
//   - Last words of a container that failed stay the sentence for people that they were. Only success is told by an outcome.
package outcome
