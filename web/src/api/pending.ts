// Shapes of answers whose description is not generated yet.

export type Session = {
  id: string; namespace: string; role: string; name: string; actor: string; created_at: string; expires_at: string; version: string;
};

export type Overview = {
  now: string;
  late: { runs: number; more: boolean; oldest_due_at?: string };
  dead_letters: { count: number; more: boolean };
};
