import { Page } from '../ui/page';
import { Empty } from '../ui/state';

export default function Job() {
  return <Page title="Job"><Empty title="This screen is not built yet" /></Page>;
}
