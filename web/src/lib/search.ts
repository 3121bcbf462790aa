import { useNavigate, useSearch } from '@tanstack/react-router';

export type Search = Record<string, string | undefined>;

/** The search parameters of the screen, and a function that changes some of them. undefined removes one. */
export function useUrl(): [Search, (change: Search, push?: boolean) => void] {
  const search = useSearch({ strict: false }) as Search;
  const navigate = useNavigate();
  const set = (change: Search, push = false) => {
    void navigate({ to: '.', search: ((old: Search) => ({ ...old, ...change })) as never, replace: !push });
  };
  return [search, set];
}
