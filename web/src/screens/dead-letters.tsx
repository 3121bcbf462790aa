import { Page } from '../ui/page';
import { Empty } from '../ui/state';

export default function DeadLetters() {
  return <Page title="DeadLetters"><Empty title="This screen is not built yet" /></Page>;
}
