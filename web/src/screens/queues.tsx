import { Page } from '../ui/page';
import { Empty } from '../ui/state';

export default function Queues() {
  return <Page title="Queues"><Empty title="This screen is not built yet" /></Page>;
}
