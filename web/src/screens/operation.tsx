import { Page } from '../ui/page';
import { Empty } from '../ui/state';

export default function Operation() {
  return <Page title="Operation"><Empty title="This screen is not built yet" /></Page>;
}
