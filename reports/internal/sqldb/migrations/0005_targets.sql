-- Runs of several scanners at one target are told apart. What a finding was is known when its report is gone.
ALTER TABLE run_parts ADD COLUMN source {{.Int}} NOT NULL DEFAULT 0;
ALTER TABLE history ADD COLUMN policy {{.Int}} NOT NULL DEFAULT 0;
ALTER TABLE history ADD COLUMN rule {{.Int}} NOT NULL DEFAULT 0;
