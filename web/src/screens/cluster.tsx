import { Page } from '../ui/page';
import { Empty } from '../ui/state';

export default function Cluster() {
  return <Page title="Cluster"><Empty title="This screen is not built yet" /></Page>;
}
