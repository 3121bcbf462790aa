import { Page } from '../ui/page';
import { Empty } from '../ui/state';

export default function Audit() {
  return <Page title="Audit"><Empty title="This screen is not built yet" /></Page>;
}
