/** The id of the run's trace, as a link if the operator has said where people look at traces. */
export function Trace({ id, url }: { id: string; url?: string }) {
  if (!url) return <code>{id}</code>;
  return <a href={url} target="_blank" rel="noreferrer"><code>{id}</code></a>;
}
