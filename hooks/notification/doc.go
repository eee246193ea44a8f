// SPDX-License-Identifier: Apache-2.0

// Package notification is a ReadOnly hook that notifies people and trackers about a Scan: chats, mail, incidents, issues.
//
//	configuration ─► channels: recipients (kinds.go), selection (rules), text (message)
//	findings ─► selection.go: one pass, what each channel is to hear of
//	each channel ─► one message (senders) or one report per finding (trackers)
//
// What it decides:
//
//   - The configuration is what users of secureCodeBox have; what is new in it is off where it is not written. A mistake
//     in it, or a credential that is not there, ends the hook before anything is sent, so that no recipient is notified twice.
//   - All channels are tried. If one fails the hook fails in the end and names the channel, the host and the status.
//   - Templates are Go templates. What they make is read as YAML, of which JSON is a part, and sent as JSON. The built-in
//     ones quote every value, so no text of a finding changes the shape of a message.
//   - Texts are escaped for where they go and for nothing else: & < > for Slack, which takes them for its markup; all of
//     HTML for the HTML of mails; nothing elsewhere.
//   - A template is given at most 1000 findings, or 2 MiB of them, and the number of all. Trackers are given them one by one.
//   - Rules may ask what is new, known or fixed compared with the previous run. Only then are runs compared.
//   - For an Errored Scan the failure is sent, whatever the rules say; findings that cannot be read count as none.
//   - Far ends that can recognise a repetition get what they need for it: PagerDuty a dedup_key, trackers are searched
//     for the finding before an issue is opened, webhooks get an Idempotency-Key, mails a Message-ID. Others may hear twice
//     when the Job is started again.
package notification
