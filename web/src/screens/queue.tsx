import { Page } from '../ui/page';
import { Empty } from '../ui/state';

export default function Queue() {
  return <Page title="Queue"><Empty title="This screen is not built yet" /></Page>;
}
