import { Page } from '../ui/page';
import { Empty } from '../ui/state';

export default function Jobs() {
  return <Page title="Jobs"><Empty title="This screen is not built yet" /></Page>;
}
